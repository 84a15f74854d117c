package train

import (
	"math"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
)

// spectral keeps every weight matrix at spectral norm 1 (Miyato et al. 2018, section 2 and algorithm 1): the network
// computes with W/sigma, where sigma = u'Wv is the largest singular value by power iteration, and W itself is trained.
// A convolution's weight counts as the matrix [Out, In*K*K]. Biases and vectors are left alone.
type spectral struct {
	weights []model.Tensor // W/sigma: the network's own memory
	raw     []model.Tensor // W
	u, v    [][]float32    // singular vectors; in float32, as checkpoints keep them
	sigma   []float32
}

// settle is how many iterations the first estimate of the singular vectors takes.
const settle = 50

func newSpectral(params, trained model.Params, src keyed.Source) *spectral {
	s := &spectral{}
	for i, t := range params {
		if _, ok := trained.Lookup(t.Name); !ok || len(t.Shape) < 2 {
			continue
		}
		rng := src.At(uint64(i), 0)
		rows, cols := matrix(t)
		u := make([]float32, rows)
		for j := range u {
			u[j] = float32(rng.NormFloat64())
		}
		s.weights = append(s.weights, t)
		s.raw = append(s.raw, model.Params{t}.Clone()[0])
		s.u, s.v, s.sigma = append(s.u, u), append(s.v, make([]float32, cols)), append(s.sigma, 1)
	}
	for range settle {
		s.normalise()
	}
	return s
}

func matrix(t model.Tensor) (rows, cols int) { return t.Shape[0], model.Size(t.Shape[1:]) }

// normalise makes one power iteration and sets the network's weights.
func (s *spectral) normalise() {
	for i, w := range s.raw {
		rows, cols := matrix(w)
		v := make([]float64, cols)
		for r := range rows {
			for c, x := range w.Data[r*cols : (r+1)*cols] {
				v[c] += float64(float64(s.u[i][r]) * float64(x))
			}
		}
		unit(v, s.v[i])
		u := make([]float64, rows)
		for r := range rows {
			for c, x := range w.Data[r*cols : (r+1)*cols] {
				u[r] += float64(float64(s.v[i][c]) * float64(x))
			}
		}
		s.sigma[i] = float32(unit(u, s.u[i]))
		for j, x := range w.Data {
			s.weights[i].Data[j] = x / s.sigma[i]
		}
	}
}

// unit writes x scaled to length 1 and gives its length. A zero vector changes nothing and has length 1.
func unit(x []float64, into []float32) float64 {
	var sq float64
	for _, v := range x {
		sq += float64(v * v)
	}
	if sq == 0 {
		return 1
	}
	length := math.Sqrt(sq)
	for i, v := range x {
		into[i] = float32(v / length)
	}
	return length
}

// backward turns gradients with respect to the network's weights into those with respect to W, with u and v held
// fixed (Miyato et al. 2018, equation 12): (G - <G, W/sigma> uv') / sigma.
func (s *spectral) backward(grads model.Params) {
	for i, w := range s.weights {
		g, _ := grads.Lookup(w.Name)
		var dot float64
		for j, x := range g.Data {
			dot += float64(float64(x) * float64(w.Data[j]))
		}
		_, cols := matrix(w)
		for j, x := range g.Data {
			outer := float64(dot*float64(s.u[i][j/cols])) * float64(s.v[i][j%cols])
			g.Data[j] = float32((float64(x) - float64(outer)) / float64(s.sigma[i]))
		}
	}
}

// expose puts W into the network's memory, where the updater works, and take brings it back and normalises.
func (s *spectral) expose() {
	for i, w := range s.raw {
		copy(s.weights[i].Data, w.Data)
	}
}

func (s *spectral) take() {
	for i, w := range s.weights {
		copy(s.raw[i].Data, w.Data)
	}
	s.normalise()
}

// tensors are what a checkpoint keeps beside the network's weights.
func (s *spectral) tensors() (out model.Params) {
	for i, w := range s.raw {
		out = append(out, model.Tensor{Name: "raw/" + w.Name, Shape: w.Shape, Data: w.Data},
			model.Tensor{Name: "u/" + w.Name, Shape: []int{len(s.u[i])}, Data: s.u[i]},
			model.Tensor{Name: "v/" + w.Name, Shape: []int{len(s.v[i])}, Data: s.v[i]},
			model.Tensor{Name: "sigma/" + w.Name, Shape: []int{1}, Data: s.sigma[i : i+1]})
	}
	return out
}
