package model

import "fmt"

// Convnet is a plain convolutional classifier for [C,H,W] inputs: one square convolution with zero padding kernel/2
// and an activation per entry of channels, then flatten, a dense layer with activation per entry of hidden, and the
// dense layer of the logits. There is no normalisation layer: batch statistics mixed over data and samples make the
// density of one sample depend on its neighbours (Grathwohl et al. 2019, appendix A).
//
// kernels and strides have one entry a convolution, or one for all.
func Convnet(input []int, classes int, channels, kernels, strides, hidden []int, f Activation) (Arch, error) {
	a := Arch{Name: "convnet", Input: input, Classes: classes}
	if len(input) != 3 {
		return a, fmt.Errorf("a convnet takes [C,H,W], got samples of shape %v; use an mlp", input)
	}
	for i, out := range channels {
		k, err := each("kernels", kernels, i, len(channels))
		if err != nil {
			return a, err
		}
		s, err := each("strides", strides, i, len(channels))
		if err != nil {
			return a, err
		}
		name := fmt.Sprintf("conv%d", i+1)
		a.Layers = append(a.Layers,
			Layer{Kind: Conv, Name: name, Out: out, Kernel: k, Stride: s, Pad: k / 2},
			Layer{Kind: Act, Name: name + ".act", Func: f})
	}
	a.Layers = append(a.Layers, Layer{Kind: Flatten, Name: "flatten"})
	a.head(hidden, classes, f)
	_, err := a.Shapes()
	return a, err
}

// MLP is a multi-layer perceptron for inputs of any shape: flatten, a dense layer with activation per entry of
// hidden, and the dense layer of the logits.
func MLP(input []int, classes int, hidden []int, f Activation) (Arch, error) {
	a := Arch{Name: "mlp", Input: input, Classes: classes}
	if len(input) > 1 {
		a.Layers = append(a.Layers, Layer{Kind: Flatten, Name: "flatten"})
	}
	a.head(hidden, classes, f)
	_, err := a.Shapes()
	return a, err
}

func (a *Arch) head(hidden []int, classes int, f Activation) {
	for i, out := range hidden {
		name := fmt.Sprintf("dense%d", i+1)
		a.Layers = append(a.Layers,
			Layer{Kind: Dense, Name: name, Out: out},
			Layer{Kind: Act, Name: name + ".act", Func: f})
	}
	a.Layers = append(a.Layers, Layer{Kind: Dense, Name: "logits", Out: classes})
}

func each(what string, values []int, i, n int) (int, error) {
	switch len(values) {
	case n:
		return values[i], nil
	case 1:
		return values[0], nil
	}
	return 0, fmt.Errorf("%s has %d entries: want one for all %d convolutions, or one each", what, len(values), n)
}
