package lower

import (
	"math"

	"github.com/jempipe/jempipe/model"
)

// forward is the network in plain float64 loops on one sample, written without looking at the graphs.
func forward(a model.Arch, p model.Params, x []float64) (logits, features []float64) {
	shape := a.Input
	shapes, err := a.Shapes()
	if err != nil {
		panic(err)
	}
	for i, l := range a.Layers {
		if i == a.Features() {
			features = x
		}
		w, _ := p.Lookup(l.Name + ".weight")
		b, _ := p.Lookup(l.Name + ".bias")
		switch l.Kind {
		case model.Conv:
			x = convolve(l, x, shape, shapes[i], w.Data, b.Data)
		case model.Dense:
			y := make([]float64, l.Out)
			for o := range y {
				y[o] = float64(b.Data[o])
				for k, v := range x {
					y[o] += v * float64(w.Data[k*l.Out+o])
				}
			}
			x = y
		case model.Act:
			y := make([]float64, len(x))
			for k, v := range x {
				y[k] = activate(l.Func, v)
			}
			x = y
		}
		shape = shapes[i]
	}
	return x, features
}

func convolve(l model.Layer, x []float64, in, out []int, w, b []float32) []float64 {
	y := make([]float64, model.Size(out))
	at := 0
	for o := range out[0] {
		for r := range out[1] {
			for c := range out[2] {
				sum := float64(b[o])
				for ch := range in[0] {
					for i := range l.Kernel {
						for j := range l.Kernel {
							u, v := r*l.Stride+i-l.Pad, c*l.Stride+j-l.Pad
							if u >= 0 && u < in[1] && v >= 0 && v < in[2] {
								sum += x[(ch*in[1]+u)*in[2]+v] * float64(w[((o*in[0]+ch)*l.Kernel+i)*l.Kernel+j])
							}
						}
					}
				}
				y[at] = sum
				at++
			}
		}
	}
	return y
}

func activate(f model.Activation, v float64) float64 {
	switch f {
	case model.SiLU:
		return v / (1 + math.Exp(-v))
	case model.ReLU:
		return max(v, 0)
	case model.LeakyReLU:
		return max(v, 0.2*v)
	case model.Tanh:
		return math.Tanh(v)
	case model.ELU:
		return max(v, 0) + math.Expm1(min(v, 0))
	case model.GELU:
		return v * (0.5 + 0.5*math.Erf(v/math.Sqrt2))
	}
	return math.Log1p(math.Exp(v))
}

func logSumExpOf(z []float64) float64 {
	top := math.Inf(-1)
	for _, v := range z {
		top = max(top, v)
	}
	sum := 0.0
	for _, v := range z {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}
