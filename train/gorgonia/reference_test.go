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
	group  int // rows that a batch normalisation takes statistics over; 0: running statistics
}

func newReference(a model.Arch, p model.Params, group int) reference {
	r := reference{arch: a, params: map[string][]float64{}, group: group}
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

// size is the number of parameters.
func (r reference) size() (n int) {
	for _, v := range r.params {
		n += len(v)
	}
	return n
}

// logits is the forward pass of rows [C,H,W] or [D].
func (r reference) logits(rows [][]float64) [][]float64 {
	z, _ := r.layers(r.arch.Layers, "", rows, r.arch.Input)
	return z
}

func (r reference) layers(layers []model.Layer, prefix string, rows [][]float64, shape []int) ([][]float64, []int) {
	for _, l := range layers {
		rows, shape = r.layer(l, prefix+l.Name, rows, shape)
	}
	return rows, shape
}

func (r reference) layer(l model.Layer, name string, rows [][]float64, in []int) ([][]float64, []int) {
	w, b := r.params[name+".weight"], r.params[name+".bias"]
	out := in
	if b == nil {
		b = make([]float64, l.Out)
	}
	switch l.Kind {
	case model.Conv:
		side := func(n int) int { return (n+2*l.Pad-l.Kernel)/l.Stride + 1 }
		out = []int{l.Out, side(in[1]), side(in[2])}
	case model.Dense:
		out = []int{l.Out}
	case model.Flatten:
		return rows, []int{model.Size(in)}
	case model.Pool:
		out = []int{in[0], 1, 1}
		if l.Pool != model.GlobalPool {
			side := func(n int) int { return (n+2*l.Pad-l.Kernel)/l.Stride + 1 }
			out = []int{in[0], side(in[1]), side(in[2])}
		}
	case model.Norm:
		return r.norm(l, name, rows, in), in
	case model.Residual:
		y, out := r.layers(l.Body, name+".", rows, in)
		other, _ := r.layers(l.Shortcut, name+".", rows, in)
		sums := make([][]float64, len(y))
		for i := range y {
			for j, v := range y[i] {
				sums[i] = append(sums[i], v+other[i][j])
			}
		}
		return sums, out
	}
	y := make([][]float64, len(rows))
	for i, x := range rows {
		switch l.Kind {
		case model.Conv:
			y[i] = referenceConv(x, w, b, in, out, l)
		case model.Dense:
			y[i] = append([]float64{}, b...)
			for o := range y[i] {
				for j, v := range x {
					y[i][o] += v * w[j*l.Out+o]
				}
			}
		case model.Act:
			for _, v := range x {
				y[i] = append(y[i], referenceAct(l.Func, v))
			}
		case model.Pool:
			y[i] = referencePool(x, in, out, l)
		}
	}
	return y, out
}

func referencePool(x []float64, in, out []int, l model.Layer) (y []float64) {
	if l.Pool == model.GlobalPool {
		l.Kernel, l.Stride = max(in[1], in[2]), 1
	}
	for c := range out[0] {
		for oy := range out[1] {
			for ox := range out[2] {
				sum, largest := 0.0, math.Inf(-1)
				for iy := oy*l.Stride - l.Pad; iy < oy*l.Stride-l.Pad+l.Kernel; iy++ {
					for ix := ox*l.Stride - l.Pad; ix < ox*l.Stride-l.Pad+l.Kernel; ix++ {
						if iy >= 0 && iy < in[1] && ix >= 0 && ix < in[2] {
							v := x[(c*in[1]+iy)*in[2]+ix]
							sum, largest = sum+v, math.Max(largest, v)
						}
					}
				}
				switch l.Pool {
				case model.MaxPool:
					y = append(y, largest)
				case model.AvgPool:
					y = append(y, sum/float64(l.Kernel*l.Kernel))
				default:
					y = append(y, sum/float64(in[1]*in[2]))
				}
			}
		}
	}
	return y
}

// norm collects for every mean the values that share it, by their row and place.
func (r reference) norm(l model.Layer, name string, rows [][]float64, in []int) [][]float64 {
	w, b := r.params[name+".weight"], r.params[name+".bias"]
	area := model.Size(in) / in[0]
	channel := func(place int) int { return place / area }
	key := func(row, place int) [2]int {
		c := channel(place)
		switch l.Norm {
		case model.BatchNorm:
			return [2]int{row / max(r.group, 1), c}
		case model.GroupNorm:
			return [2]int{row, c / (in[0] / l.Groups)}
		case model.InstanceNorm:
			return [2]int{row, c}
		}
		return [2]int{row, 0}
	}
	sets := map[[2]int][]float64{}
	for i, x := range rows {
		for j, v := range x {
			sets[key(i, j)] = append(sets[key(i, j)], v)
		}
	}
	stats := map[[2]int][2]float64{}
	for k, set := range sets {
		stats[k] = referenceMoments(set)
	}
	y := make([][]float64, len(rows))
	for i, x := range rows {
		for j, v := range x {
			s, c := stats[key(i, j)], channel(j)
			if l.Norm == model.BatchNorm && r.group == 0 {
				s = [2]float64{r.params[name+".running_mean"][c], r.params[name+".running_var"][c]}
			}
			y[i] = append(y[i], (v-s[0])/math.Sqrt(s[1]+1e-5)*w[c]+b[c])
		}
	}
	return y
}

// referenceMoments is the mean and the biased variance.
func referenceMoments(set []float64) [2]float64 {
	var mean, variance float64
	for _, v := range set {
		mean += v / float64(len(set))
	}
	for _, v := range set {
		variance += (v - mean) * (v - mean) / float64(len(set))
	}
	return [2]float64{mean, variance}
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
	case model.ELU:
		if v > 0 {
			return v
		}
		return math.Expm1(v)
	case model.GELU:
		return v * math.Erfc(-v/math.Sqrt2) / 2
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
	k := r.arch.Classes
	sum := 0.0
	for i, z := range r.logits(split(b.X, len(b.Alpha))) {
		lse := referenceLSE(z)
		sum += float64(b.Alpha[i])*lse + float64(b.Beta[i])*lse*lse
		for j, v := range z {
			sum += float64(b.Gamma[i*k+j]) * v
		}
	}
	return sum
}

// split cuts x into n rows.
func split(x []float32, n int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = widen(x[i*len(x)/n : (i+1)*len(x)/n])
	}
	return rows
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
	next := 'a'
	label(a.Layers, &next)
	a.Classes = a.Layers[len(a.Layers)-1].Out
	return a
}

// label names layers a, b, c and so on, those of blocks before the block.
func label(layers []model.Layer, next *rune) {
	for i := range layers {
		label(layers[i].Body, next)
		label(layers[i].Shortcut, next)
		layers[i].Name = string(*next)
		*next++
	}
}

func conv(out, k, s, p int) model.Layer {
	return model.Layer{Kind: model.Conv, Out: out, Kernel: k, Stride: s, Pad: p}
}
func dense(out int) model.Layer          { return model.Layer{Kind: model.Dense, Out: out} }
func act(f model.Activation) model.Layer { return model.Layer{Kind: model.Act, Func: f} }
func flat() model.Layer                  { return model.Layer{Kind: model.Flatten} }
func pool(p model.PoolKind, k, s, pad int) model.Layer {
	return model.Layer{Kind: model.Pool, Pool: p, Kernel: k, Stride: s, Pad: pad}
}
func normal(n model.NormKind, groups int) model.Layer {
	return model.Layer{Kind: model.Norm, Norm: n, Groups: groups}
}
func nobias(l model.Layer) model.Layer { l.NoBias = true; return l }
func block(body []model.Layer, shortcut ...model.Layer) model.Layer {
	return model.Layer{Kind: model.Residual, Body: body, Shortcut: shortcut}
}
func list(layers ...model.Layer) []model.Layer { return layers }
func stream(seed, index uint64) *rand.Rand     { return keyed.New(seed, "test").At(index, 0).Rand }

// testParams draws parameters whose activations are of order 1.
func testParams(t testing.TB, a model.Arch, seed uint64) model.Params {
	t.Helper()
	p, err := a.Init(func(i int) *rand.Rand { return stream(seed, uint64(i)) })
	if err != nil {
		t.Fatal(err)
	}
	specs, err := a.Params()
	if err != nil {
		t.Fatal(err)
	}
	for i := range p {
		rng := stream(seed, 500+uint64(i))
		for j := range p[i].Data {
			switch specs[i].Role {
			case model.RoleWeight, model.RoleBias:
				p[i].Data[j] *= 1.7
			default: // as after some training
				p[i].Data[j] += .4 * float32(rng.Float64())
			}
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
