package model

import "fmt"

// Style is what the layers of a network have in common.
type Style struct {
	Act    Activation // after each layer but the last
	Norm   NormKind   // before each activation; empty for none
	Groups int        // of GroupNorm
}

// NoNorm is the name of a network without normalisation, the authors' choice: batch statistics mixed over data and
// samples make the density of one sample depend on its neighbours (Grathwohl et al. 2019, appendix A).
const NoNorm NormKind = ""

// after are the layers behind one with the given name: normalisation, where there is one, and activation.
func (s Style) after(name string) []Layer {
	return append(s.norm(name+".norm"), Layer{Kind: Act, Name: name + ".act", Func: s.Act})
}

// norm is a list of one normalisation, or of none.
func (s Style) norm(name string) []Layer {
	if s.Norm == NoNorm {
		return nil
	}
	l := Layer{Kind: Norm, Name: name, Norm: s.Norm}
	if s.Norm == GroupNorm {
		l.Groups = s.Groups
	}
	return []Layer{l}
}

// Convnet is a plain convolutional classifier for [C,H,W] inputs: one square convolution with zero padding kernel/2,
// normalisation and an activation per entry of channels, then flatten, a dense layer with activation per entry of
// hidden, and the dense layer of the logits. The dense layers have no normalisation.
//
// kernels and strides have one entry a convolution, or one for all.
func Convnet(input []int, classes int, channels, kernels, strides, hidden []int, s Style) (Arch, error) {
	a := Arch{Name: "convnet", Input: input, Classes: classes}
	if len(input) != 3 {
		return a, fmt.Errorf("a convnet takes [C,H,W], got samples of shape %v; use an mlp", input)
	}
	for i, out := range channels {
		k, err := perConv("kernels", kernels, i, len(channels))
		if err != nil {
			return a, err
		}
		stride, err := perConv("strides", strides, i, len(channels))
		if err != nil {
			return a, err
		}
		name := fmt.Sprintf("conv%d", i+1)
		a.Layers = append(a.Layers, Layer{Kind: Conv, Name: name, Out: out, Kernel: k, Stride: stride, Pad: k / 2})
		a.Layers = append(a.Layers, s.after(name)...)
	}
	a.Layers = append(a.Layers, Layer{Kind: Flatten, Name: "flatten"})
	s.Norm = NoNorm
	a.head(hidden, s)
	_, err := a.Shapes()
	return a, err
}

// MLP is a multi-layer perceptron for inputs of any shape: flatten, a dense layer with normalisation and activation per
// entry of hidden, and the dense layer of the logits.
func MLP(input []int, classes int, hidden []int, s Style) (Arch, error) {
	a := Arch{Name: "mlp", Input: input, Classes: classes}
	if len(input) > 1 {
		a.Layers = append(a.Layers, Layer{Kind: Flatten, Name: "flatten"})
	}
	a.head(hidden, s)
	_, err := a.Shapes()
	return a, err
}

// head adds the dense layers.
func (a *Arch) head(hidden []int, s Style) {
	for i, out := range hidden {
		name := fmt.Sprintf("dense%d", i+1)
		a.Layers = append(append(a.Layers, Layer{Kind: Dense, Name: name, Out: out}), s.after(name)...)
	}
	a.Layers = append(a.Layers, Layer{Kind: Dense, Name: "logits", Out: a.Classes})
}

func perConv(what string, values []int, i, n int) (int, error) {
	switch len(values) {
	case n:
		return values[i], nil
	case 1:
		return values[0], nil
	}
	return 0, fmt.Errorf("%s has %d entries: want one for all %d convolutions, or one each", what, len(values), n)
}

// WideResNet is a wide residual network of depth 6n+4 and the given width (Zagoruyko and Komodakis 2016, table 1) for
// [C,H,W] inputs, as the JEM authors have it: a 3x3 convolution to 16 channels; three stages of n blocks with 16, 32 and
// 64 times width channels and strides 1, 2 and 2; normalisation, activation, mean over all positions, and the dense layer
// of the logits. A block is normalisation, activation and 3x3 convolution twice, the second with the block's stride,
// around which goes the input, by a 1x1 convolution where shapes differ. Every convolution has a bias.
func WideResNet(input []int, classes, depth, width int, s Style) (Arch, error) {
	a := Arch{Name: "wide_resnet", Input: input, Classes: classes}
	if len(input) != 3 {
		return a, fmt.Errorf("a wide_resnet takes [C,H,W], got samples of shape %v; use an mlp", input)
	}
	if depth < 10 || (depth-4)%6 != 0 {
		return a, fmt.Errorf("wide_resnet: depth %d is not 6n+4 with n of at least 1, as 10, 16, 22 and 28 are", depth)
	}
	if width < 1 {
		return a, fmt.Errorf("wide_resnet: width %d must be at least 1", width)
	}
	a.Layers = append(a.Layers, conv("conv1", 16, 3, 1))
	in := 16
	for stage := range 3 {
		out := 16 << stage * width
		for i := range (depth - 4) / 6 {
			stride := 1
			if stage > 0 && i == 0 {
				stride = 2
			}
			a.Layers = append(a.Layers, s.block(fmt.Sprintf("block%d_%d", stage+1, i+1), in, out, stride))
			in = out
		}
	}
	a.Layers = append(a.Layers, s.norm("norm")...)
	a.Layers = append(a.Layers,
		Layer{Kind: Act, Name: "act", Func: s.Act},
		Layer{Kind: Pool, Name: "pool", Pool: GlobalPool},
		Layer{Kind: Flatten, Name: "flatten"},
		Layer{Kind: Dense, Name: "logits", Out: classes})
	_, err := a.Shapes()
	return a, err
}

// block is a pre-activation residual block.
func (s Style) block(name string, in, out, stride int) Layer {
	b := Layer{Kind: Residual, Name: name}
	for i, step := range []int{1, stride} {
		n := i + 1
		b.Body = append(b.Body, s.norm(fmt.Sprintf("norm%d", n))...)
		b.Body = append(b.Body, Layer{Kind: Act, Name: fmt.Sprintf("act%d", n), Func: s.Act}, conv(fmt.Sprintf("conv%d", n), out, 3, step))
	}
	if in != out || stride != 1 {
		b.Shortcut = []Layer{conv("shortcut", out, 1, stride)}
	}
	return b
}

// conv is a convolution that keeps the sides at stride 1; kernel is odd.
func conv(name string, out, kernel, stride int) Layer {
	return Layer{Kind: Conv, Name: name, Out: out, Kernel: kernel, Stride: stride, Pad: kernel / 2}
}
