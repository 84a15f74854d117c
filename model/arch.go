// Package model says what a network is, as data: an architecture is a list of layers, and its parameters are named
// tensors. Nothing here computes; train/gorgonia and onnx/lower each turn the same description into a graph.
package model

import (
	"fmt"
	"slices"
	"strings"
)

// LayerKind names what a layer does.
type LayerKind string

const (
	Conv    LayerKind = "conv"    // 2-D convolution with bias: [N,C,H,W] to [N,Out,H',W']
	Dense   LayerKind = "dense"   // x W + b: [N,D] to [N,Out]
	Flatten LayerKind = "flatten" // [N,C,H,W] to [N,C*H*W], row-major
	Act     LayerKind = "act"     // element-wise activation
)

// Activation names an element-wise function.
type Activation string

const (
	SiLU      Activation = "silu"       // x * sigmoid(x) (Elfwing, Uchibe and Doya 2017); also known as Swish
	ReLU      Activation = "relu"       // max(x, 0)
	LeakyReLU Activation = "leaky_relu" // x for x > 0, else 0.2 x, the slope of the JEM authors
	Tanh      Activation = "tanh"
	Softplus  Activation = "softplus" // log(1 + exp(x))
)

// Activations lists every activation, in the order of the documentation.
var Activations = []Activation{SiLU, ReLU, LeakyReLU, Tanh, Softplus}

// LeakySlope is the slope of LeakyReLU for negative inputs.
const LeakySlope = 0.2

// Layer is one layer. Fields that its kind does not use are zero.
type Layer struct {
	Kind   LayerKind  `json:"kind"`
	Name   string     `json:"name"`             // unique in the architecture; parameters are Name.weight and Name.bias
	Out    int        `json:"out,omitempty"`    // conv: output channels; dense: output width
	Kernel int        `json:"kernel,omitempty"` // conv: side of the square kernel
	Stride int        `json:"stride,omitempty"` // conv: step in both directions
	Pad    int        `json:"pad,omitempty"`    // conv: zeros on each side
	Func   Activation `json:"func,omitempty"`   // act: which
}

// Arch is a feed-forward classifier: layers applied in order to an input of shape Input, ending in Classes logits.
type Arch struct {
	Name    string  `json:"name"`
	Input   []int   `json:"input"` // shape of one sample in model space, [C,H,W] or [D]
	Classes int     `json:"classes"`
	Layers  []Layer `json:"layers"`
}

// Param is the shape and initialisation of one parameter.
type Param struct {
	Name  string
	Shape []int // conv weight [Out,In,K,K], dense weight [In,Out], bias [Out]
	FanIn int   // number of inputs that reach one output
}

// Size is the number of elements.
func (p Param) Size() int { return Size(p.Shape) }

// Size is the product of the dimensions of a shape; 1 for a scalar.
func Size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Size is the number of elements of one input sample.
func (a Arch) Size() int { return Size(a.Input) }

// Shapes gives the shape of one sample after each layer, without the batch axis, or an error that names the layer
// that does not fit.
func (a Arch) Shapes() ([][]int, error) {
	if len(a.Input) != 1 && len(a.Input) != 3 {
		return nil, fmt.Errorf("model %s: input shape %v: want [D] or [C,H,W]", a.Name, a.Input)
	}
	if slices.ContainsFunc(a.Input, func(d int) bool { return d < 1 }) {
		return nil, fmt.Errorf("model %s: input shape %v: every dimension must be at least 1", a.Name, a.Input)
	}
	seen := map[string]bool{}
	out := make([][]int, len(a.Layers))
	in := a.Input
	for i, l := range a.Layers {
		if l.Name == "" || seen[l.Name] || strings.ContainsAny(l.Name, " /") {
			return nil, fmt.Errorf("model %s: layer %d: name %q must be unique, not empty, without blanks or slashes", a.Name, i, l.Name)
		}
		seen[l.Name] = true
		next, err := l.shape(in)
		if err != nil {
			return nil, fmt.Errorf("model %s: layer %s: %w", a.Name, l.Name, err)
		}
		out[i], in = next, next
	}
	if len(in) != 1 || in[0] != a.Classes {
		return nil, fmt.Errorf("model %s: the last layer gives %v, want [%d], one logit a class", a.Name, in, a.Classes)
	}
	return out, nil
}

func (l Layer) shape(in []int) ([]int, error) {
	switch l.Kind {
	case Conv:
		if len(in) != 3 {
			return nil, fmt.Errorf("conv takes [C,H,W], got %v", in)
		}
		if l.Out < 1 || l.Kernel < 1 || l.Stride < 1 || l.Pad < 0 {
			return nil, fmt.Errorf("conv: out %d, kernel %d, stride %d must be at least 1 and pad %d at least 0", l.Out, l.Kernel, l.Stride, l.Pad)
		}
		h, w := l.side(in[1]), l.side(in[2])
		if h < 1 || w < 1 {
			return nil, fmt.Errorf("conv: a kernel of %d with padding %d does not fit into %dx%d", l.Kernel, l.Pad, in[1], in[2])
		}
		return []int{l.Out, h, w}, nil
	case Dense:
		if len(in) != 1 {
			return nil, fmt.Errorf("dense takes [D], got %v: put a flatten layer before it", in)
		}
		if l.Out < 1 {
			return nil, fmt.Errorf("dense: out %d must be at least 1", l.Out)
		}
		return []int{l.Out}, nil
	case Flatten:
		return []int{Size(in)}, nil
	case Act:
		if !slices.Contains(Activations, l.Func) {
			return nil, fmt.Errorf("activation %q is not one of %v", l.Func, Activations)
		}
		return in, nil
	}
	return nil, fmt.Errorf("layer kind %q is not known", l.Kind)
}

func (l Layer) side(n int) int {
	if n+2*l.Pad < l.Kernel {
		return 0
	}
	return (n+2*l.Pad-l.Kernel)/l.Stride + 1
}

// Params lists the parameters in layer order, weight before bias.
func (a Arch) Params() ([]Param, error) {
	shapes, err := a.Shapes()
	if err != nil {
		return nil, err
	}
	var ps []Param
	in := a.Input
	for i, l := range a.Layers {
		var weight []int
		fan := 0
		switch l.Kind {
		case Conv:
			weight, fan = []int{l.Out, in[0], l.Kernel, l.Kernel}, in[0]*l.Kernel*l.Kernel
		case Dense:
			weight, fan = []int{in[0], l.Out}, in[0]
		}
		if weight != nil {
			ps = append(ps, Param{l.Name + ".weight", weight, fan}, Param{l.Name + ".bias", []int{l.Out}, fan})
		}
		in = shapes[i]
	}
	return ps, nil
}

// Features is the index of the last dense layer, whose input is the penultimate feature vector of feature-based
// detectors; -1 where the network has no dense layer.
func (a Arch) Features() int {
	for i := len(a.Layers) - 1; i >= 0; i-- {
		if a.Layers[i].Kind == Dense {
			return i
		}
	}
	return -1
}
