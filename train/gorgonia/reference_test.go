package gorgonia

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
)

// reference is the network in float64, written from the definitions: no layout, no blocks, no sharing of code with the
// package.
type reference struct {
	arch   model.Arch
	params map[string][]float64
}

func newReference(a model.Arch, p model.Params) reference {
	r := reference{arch: a, params: map[string][]float64{}}
	for _, t := range p {
		r.params[t.Name] = widen(t.Data)
	}
	return r
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// logits is the forward pass of one row [C,H,W] or [D].
func (r reference) logits(x []float64) []float64 {
	shape := r.arch.Input
	shapes, err := r.arch.Shapes()
	if err != nil {
		panic(err)
	}
	for i, l := range r.arch.Layers {
		w, b := r.params[l.Name+".weight"], r.params[l.Name+".bias"]
		switch l.Kind {
		case model.Conv:
			x = referenceConv(x, w, b, shape, shapes[i], l)
		case model.Dense:
			y := make([]float64, l.Out)
			for o := range y {
				y[o] = b[o]
				for j, v := range x {
					y[o] += v * w[j*l.Out+o]
				}
			}
			x = y
		case model.Act:
			y := make([]float64, len(x))
			for j, v := range x {
				y[j] = referenceAct(l.Func, v)
			}
			x = y
		}
		shape = shapes[i]
	}
	return x
}

func referenceConv(x, w, b []float64, in, out []int, l model.Layer) []float64 {
	y := make([]float64, 0, model.Size(out))
	for o := range out[0] {
		for oy := range out[1] {
			for ox := range out[2] {
				sum := b[o]
				for c := range in[0] {
					for ky := range l.Kernel {
						for kx := range l.Kernel {
							iy, ix := oy*l.Stride-l.Pad+ky, ox*l.Stride-l.Pad+kx
							if iy >= 0 && iy < in[1] && ix >= 0 && ix < in[2] {
								sum += x[(c*in[1]+iy)*in[2]+ix] * w[((o*in[0]+c)*l.Kernel+ky)*l.Kernel+kx]
							}
						}
					}
				}
				y = append(y, sum)
			}
		}
	}
	return y
}

func referenceAct(f model.Activation, v float64) float64 {
	switch f {
	case model.SiLU:
		return v / (1 + math.Exp(-v))
	case model.ReLU:
		return math.Max(v, 0)
	case model.LeakyReLU:
		if v > 0 {
			return v
		}
		return 0.2 * v
	case model.Tanh:
		return math.Tanh(v)
	case model.Softplus:
		if v > 30 {
			return v
		}
		return math.Log1p(math.Exp(v))
	}
	panic(f)
}

func referenceLSE(z []float64) float64 {
	top := z[0]
	for _, v := range z {
		top = math.Max(top, v)
	}
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

// loss is the loss of a batch.
func (r reference) loss(b Batch) float64 {
	size, k := model.Size(r.arch.Input), r.arch.Classes
	sum := 0.0
	for i := range b.Alpha {
		z := r.logits(widen(b.X[i*size : (i+1)*size]))
		lse := referenceLSE(z)
		sum += float64(b.Alpha[i])*lse + float64(b.Beta[i])*lse*lse
		for j, v := range z {
			sum += float64(b.Gamma[i*k+j]) * v
		}
	}
	return sum
}

// derivative is the central difference of f with respect to *x.
func derivative(x *float64, f func() float64) float64 {
	const h = 1e-5
	old := *x
	*x = old + h
	up := f()
	*x = old - h
	down := f()
	*x = old
	return (up - down) / (2 * h)
}

// testArch is an architecture from shorthand.
func testArch(input []int, layers ...model.Layer) model.Arch {
	a := model.Arch{Name: "test", Input: input, Layers: layers}
	for i := range a.Layers {
		a.Layers[i].Name = string(rune('a' + i))
	}
	a.Classes = a.Layers[len(a.Layers)-1].Out
	return a
}

func conv(out, k, s, p int) model.Layer {
	return model.Layer{Kind: model.Conv, Out: out, Kernel: k, Stride: s, Pad: p}
}
func dense(out int) model.Layer            { return model.Layer{Kind: model.Dense, Out: out} }
func act(f model.Activation) model.Layer   { return model.Layer{Kind: model.Act, Func: f} }
func flat() model.Layer                    { return model.Layer{Kind: model.Flatten} }
func stream(seed, index uint64) *rand.Rand { return keyed.New(seed, "test").At(index, 0).Rand }

// testParams draws parameters whose activations are of order 1.
func testParams(t testing.TB, a model.Arch, seed uint64) model.Params {
	t.Helper()
	p, err := a.Init(func(i int) *rand.Rand { return stream(seed, uint64(i)) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range p {
		for j := range p[i].Data {
			p[i].Data[j] *= 1.7
		}
	}
	return p
}

func testBatch(a model.Arch, n int, seed uint64) Batch {
	rng := stream(seed, 1000)
	draw := func(n int, scale float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(scale * rng.NormFloat64())
		}
		return out
	}
	return Batch{X: draw(n*model.Size(a.Input), 1), Alpha: draw(n, 1), Beta: draw(n, .3), Gamma: draw(n*a.Classes, 1)}
}

// convnet28 and convnet8 are the networks of the examples.
func convnet28() model.Arch {
	return testArch([]int{1, 28, 28}, conv(16, 5, 2, 2), act(model.SiLU), conv(32, 3, 2, 1), act(model.SiLU),
		conv(64, 3, 2, 1), act(model.SiLU), flat(), dense(64), act(model.SiLU), dense(10))
}

func convnet8() model.Arch {
	return testArch([]int{1, 8, 8}, conv(16, 3, 1, 1), act(model.SiLU), conv(32, 3, 2, 1), act(model.SiLU),
		conv(64, 3, 2, 1), act(model.SiLU), flat(), dense(64), act(model.SiLU), dense(10))
}
