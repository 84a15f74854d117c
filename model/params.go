package model

import (
	"fmt"
	"math"
	"slices"
)

// Tensor is one named parameter with its values in row-major order.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// Params are the parameters of an architecture, in the order of Arch.Params.
type Params []Tensor

// Lookup gives the tensor of a name.
func (ps Params) Lookup(name string) (Tensor, bool) {
	i := slices.IndexFunc(ps, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return ps[i], true
}

// Clone copies the parameters, values included.
func (ps Params) Clone() Params {
	out := slices.Clone(ps)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
		out[i].Data = slices.Clone(out[i].Data)
	}
	return out
}

// Count is the number of scalars.
func (ps Params) Count() int {
	n := 0
	for _, t := range ps {
		n += len(t.Data)
	}
	return n
}

// Check says whether the parameters are those of the architecture: names, order, shapes, finite values.
func (ps Params) Check(a Arch) error {
	want, err := a.Params()
	if err != nil {
		return err
	}
	if len(ps) != len(want) {
		return fmt.Errorf("model %s has %d parameters, found %d", a.Name, len(want), len(ps))
	}
	for i, w := range want {
		t := ps[i]
		if t.Name != w.Name {
			return fmt.Errorf("model %s: parameter %d is %s, found %s", a.Name, i, w.Name, t.Name)
		}
		if !slices.Equal(t.Shape, w.Shape) || len(t.Data) != w.Size() {
			return fmt.Errorf("parameter %s has shape %v, found %v with %d values", w.Name, w.Shape, t.Shape, len(t.Data))
		}
		for j, v := range t.Data {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("parameter %s: value %d is %v", w.Name, j, v)
			}
			if w.Role == RoleVariance && v < 0 {
				return fmt.Errorf("parameter %s: value %d is %v, a variance is at least 0", w.Name, j, v)
			}
		}
	}
	return nil
}
