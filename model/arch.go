// Package model says what a network is, as data: an architecture is a list of layers, and its parameters are named
// tensors. Nothing here computes; train/gorgonia and onnx/lower each turn the same description into a graph.
package model

import (
	"fmt"
	"slices"
)

// Arch is a feed-forward classifier: layers applied in order to an input of shape Input, ending in Classes logits.
type Arch struct {
	Name    string  `json:"name"`
	Input   []int   `json:"input"` // shape of one sample in model space, [C,H,W] or [D]
	Classes int     `json:"classes"`
	Layers  []Layer `json:"layers"`
}

// Role says what a parameter is to its layer, which decides its first value.
type Role int

// The roles of parameters.
const (
	RoleWeight   Role = iota // of a convolution or dense layer
	RoleBias                 // of a convolution or dense layer
	RoleScale                // of a normalisation, 1 at first
	RoleShift                // of a normalisation, 0 at first
	RoleMean                 // running mean of a batch normalisation, 0 at first
	RoleVariance             // running variance of a batch normalisation, 1 at first
)

// Param is the shape and role of one parameter.
type Param struct {
	Name   string
	Shape  []int // conv weight [Out,In,K,K], dense weight [In,Out], bias [Out], all of a normalisation [C] or [D]
	Role   Role
	FanIn  int  // weight and bias: number of inputs that reach one output
	FanOut int  // weight and bias: number of outputs that one input reaches, strides left out
	State  bool // not trained: the running mean and variance of a batch normalisation
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

// Placed is a layer in its place: under its full name, and with the shapes of one sample before and after it.
type Placed struct {
	Layer
	Path           string // names of the blocks around the layer and its own, joined by dots: the prefix of its parameters
	In, Out        []int
	Body, Shortcut []Placed // of a residual block
}

// Place puts every layer in its place, or gives an error that names the layer that does not fit.
func (a Arch) Place() ([]Placed, error) {
	if len(a.Input) != 1 && len(a.Input) != 3 {
		return nil, fmt.Errorf("model %s: input shape %v: want [D] or [C,H,W]", a.Name, a.Input)
	}
	if slices.ContainsFunc(a.Input, func(d int) bool { return d < 1 }) {
		return nil, fmt.Errorf("model %s: input shape %v: every dimension must be at least 1", a.Name, a.Input)
	}
	p := placing{seen: map[string]bool{}}
	placed, out, err := p.layers(a.Layers, "", a.Input, 0)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", a.Name, err)
	}
	if len(out) != 1 || out[0] != a.Classes {
		return nil, fmt.Errorf("model %s: the last layer gives %v, want [%d], one logit a class", a.Name, out, a.Classes)
	}
	return placed, nil
}

// Shapes gives the shape of one sample after each layer of the outermost list, without the batch axis, or an error that
// names the layer that does not fit.
func (a Arch) Shapes() ([][]int, error) {
	placed, err := a.Place()
	if err != nil {
		return nil, err
	}
	out := make([][]int, len(placed))
	for i, l := range placed {
		out[i] = l.Out
	}
	return out, nil
}

// Params lists the parameters in layer order, the body of a residual block before its shortcut, and for each layer
// weight, bias, running mean and running variance, as far as it has them.
func (a Arch) Params() ([]Param, error) {
	placed, err := a.Place()
	if err != nil {
		return nil, err
	}
	var ps []Param
	each(placed, func(l Placed) { ps = append(ps, l.params()...) })
	return ps, nil
}

// Walk calls f for every layer that is no residual block, in the order of Params.
func (a Arch) Walk(f func(Placed)) error {
	placed, err := a.Place()
	if err == nil {
		each(placed, f)
	}
	return err
}

// each calls f for every layer that is no residual block.
func each(layers []Placed, f func(Placed)) {
	for _, l := range layers {
		if l.Kind == Residual {
			each(l.Body, f)
			each(l.Shortcut, f)
			continue
		}
		f(l)
	}
}

// BatchNorms says whether the network has a batch normalisation, so that rows of a training batch depend on each other.
func (a Arch) BatchNorms() bool {
	found := false
	err := a.Walk(func(l Placed) { found = found || l.Kind == Norm && l.Norm == BatchNorm })
	return err == nil && found
}

// params are those of one layer.
func (l Placed) params() []Param {
	var ps []Param
	switch l.Kind {
	case Conv, Dense:
		weight, in, out := []int{l.Layer.Out, l.In[0], l.Kernel, l.Kernel}, l.In[0]*l.Kernel*l.Kernel, l.Layer.Out*l.Kernel*l.Kernel
		if l.Kind == Dense {
			weight, in, out = []int{l.In[0], l.Layer.Out}, l.In[0], l.Layer.Out
		}
		ps = append(ps, Param{Name: l.Path + ".weight", Shape: weight, Role: RoleWeight, FanIn: in, FanOut: out})
		if !l.NoBias {
			ps = append(ps, Param{Name: l.Path + ".bias", Shape: []int{l.Layer.Out}, Role: RoleBias, FanIn: in, FanOut: out})
		}
	case Norm:
		shape := []int{l.In[0]}
		ps = append(ps, Param{Name: l.Path + ".weight", Shape: shape, Role: RoleScale}, Param{Name: l.Path + ".bias", Shape: shape, Role: RoleShift})
		if l.Norm == BatchNorm {
			ps = append(ps, Param{Name: l.Path + ".running_mean", Shape: shape, Role: RoleMean, State: true},
				Param{Name: l.Path + ".running_var", Shape: shape, Role: RoleVariance, State: true})
		}
	}
	return ps
}

// Features is the index of the last dense layer of the outermost list, whose input is the penultimate feature vector of
// feature-based detectors; -1 where there is none.
func (a Arch) Features() int {
	for i := len(a.Layers) - 1; i >= 0; i-- {
		if a.Layers[i].Kind == Dense {
			return i
		}
	}
	return -1
}
