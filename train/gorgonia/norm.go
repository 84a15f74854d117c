package gorgonia

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"

	"github.com/jempipe/jempipe/model"
)

// standardiser normalises a matrix of rows [segments*rows, c]: every segment by itself, and in it every group of c/groups
// neighbouring columns over all rows. A segment is one sample, or for a batch normalisation a group of samples.
type standardiser struct {
	segments, rows, c, groups int
	mean, variance, inverse   []float64 // of the last forward pass, [segments, groups]; inverse = 1 / sqrt(variance + epsilon)
	shift, slope              []float64 // scratch, one a column
	sum, product              []float64
}

func newStandardiser(segments, rows, c, groups int) *standardiser {
	s := &standardiser{segments: segments, rows: rows, c: c, groups: groups}
	for _, v := range []*[]float64{&s.mean, &s.variance, &s.inverse} {
		*v = make([]float64, segments*groups)
	}
	for _, v := range []*[]float64{&s.shift, &s.slope, &s.sum, &s.product} {
		*v = make([]float64, c)
	}
	return s
}

// count is the number of values that share a mean.
func (s *standardiser) count() int { return s.rows * s.c / s.groups }

// segment gives the rows of segment i.
func (s *standardiser) segment(x []float32, i int) []float32 {
	return x[i*s.rows*s.c : (i+1)*s.rows*s.c]
}

// pooled adds up the columns of each group of v, divides by count, and writes the result to out [groups].
func (s *standardiser) pooled(v, out []float64) {
	width := s.c / s.groups
	for g := range out {
		sum := 0.0
		for _, x := range v[g*width : (g+1)*width] {
			sum += x
		}
		out[g] = sum / float64(s.count())
	}
}

// forward computes y = (x - mean) * inverse * w + b.
func (s *standardiser) forward(x, w, b, y []float32) {
	for i := range s.segments {
		in, out := s.segment(x, i), s.segment(y, i)
		s.statistics(in, i)
		s.load(i)
		for c := range s.slope {
			s.slope[c] *= float64(w[c])
		}
		for at := 0; at < len(in); at += s.c {
			row := out[at : at+s.c]
			for c, v := range in[at : at+s.c] {
				row[c] = float32((float64(v)-s.shift[c])*s.slope[c] + float64(b[c]))
			}
		}
	}
}

// statistics finds mean, variance and inverse of segment i. The variance takes a second pass, which loses no digits
// where the mean is large.
func (s *standardiser) statistics(x []float32, i int) {
	lo, hi := i*s.groups, (i+1)*s.groups
	clear(s.sum)
	for at := 0; at < len(x); at += s.c {
		for c, v := range x[at : at+s.c] {
			s.sum[c] += float64(v)
		}
	}
	s.pooled(s.sum, s.mean[lo:hi])
	s.load(i)
	clear(s.sum)
	for at := 0; at < len(x); at += s.c {
		for c, v := range x[at : at+s.c] {
			d := float64(v) - s.shift[c]
			s.sum[c] += d * d
		}
	}
	s.pooled(s.sum, s.variance[lo:hi])
	for g := lo; g < hi; g++ {
		s.inverse[g] = 1 / math.Sqrt(s.variance[g]+model.NormEpsilon)
	}
}

// load sets shift and slope to mean and inverse of each column of segment i.
func (s *standardiser) load(i int) {
	width := s.c / s.groups
	for c := range s.shift {
		s.shift[c], s.slope[c] = s.mean[i*s.groups+c/width], s.inverse[i*s.groups+c/width]
	}
}

// columns sets sum to the column sums of dy in segment i and product to those of dy times the standardised x.
func (s *standardiser) columns(x, dy []float32, i int) {
	in, d := s.segment(x, i), s.segment(dy, i)
	clear(s.sum)
	clear(s.product)
	s.load(i)
	for at := 0; at < len(in); at += s.c {
		row := d[at : at+s.c]
		for c, v := range in[at : at+s.c] {
			g := float64(row[c])
			s.sum[c] += g
			s.product[c] += g * (float64(v) - s.shift[c]) * s.slope[c]
		}
	}
}

// inputGrad computes dx = inverse * (g - mean(g) - h * mean(g h)) with g = dy * w and h the standardised x (Ioffe and
// Szegedy 2015, section 3, with the sums over a group put together).
func (s *standardiser) inputGrad(x, w, dy, dx []float32) {
	width := s.c / s.groups
	mean, slope := make([]float64, s.groups), make([]float64, s.groups)
	for i := range s.segments {
		s.columns(x, dy, i)
		for c := range s.c {
			s.sum[c] *= float64(w[c])
			s.product[c] *= float64(w[c])
		}
		s.pooled(s.sum, mean)
		s.pooled(s.product, slope)
		for c := range s.c {
			s.sum[c], s.product[c] = mean[c/width], slope[c/width]
		}
		in, d, out := s.segment(x, i), s.segment(dy, i), s.segment(dx, i)
		for at := 0; at < len(in); at += s.c {
			grad, to := d[at:at+s.c], out[at:at+s.c]
			for c, v := range in[at : at+s.c] {
				h := (float64(v) - s.shift[c]) * s.slope[c]
				to[c] = float32(s.slope[c] * (float64(grad[c])*float64(w[c]) - s.sum[c] - h*s.product[c]))
			}
		}
	}
}

// weightGrad computes dw = sum of dy times the standardised x over all rows.
func (s *standardiser) weightGrad(x, dy, dw []float32) {
	total := make([]float64, s.c)
	for i := range s.segments {
		s.columns(x, dy, i)
		for c, v := range s.product {
			total[c] += v
		}
	}
	for c, v := range total {
		dw[c] = float32(v)
	}
}

// norm adds a normalisation.
func (l *lowering) norm(layer model.Placed, p model.Params) {
	rows, channels := l.matrix()
	area := rows / l.n
	switch {
	case layer.Norm != model.BatchNorm:
		l.standardise(layer.Path, newStandardiser(l.n, area, channels, layer.NormGroups(channels)), p)
	case l.want == paramGrads:
		l.batchNorm(layer.Path, area, channels, p)
	default:
		l.runningNorm(layer.Path, p)
	}
}

// standardise adds an operator for the layer and one for each gradient that is wanted.
func (l *lowering) standardise(name string, s *standardiser, p model.Params) {
	weight, _ := p.Lookup(name + ".weight")
	bias, _ := p.Lookup(name + ".bias")
	w, b := l.input(weight.Name, 1, s.c, weight.Data), l.input(bias.Name, 1, s.c, bias.Data)
	l.params = append(l.params, w, b)
	rows := s.segments * s.rows
	k := newKernel(name, rows, s.c, matrices(3), func(in [][]float32, out []float32) { s.forward(in[0], in[1], in[2], out) })
	diff := l.wanted(3, 2)
	k.differentiable(diff, func(in G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		grads := make(G.Nodes, 3)
		if diff[0] {
			grads[0] = l.apply(newKernel(name+".dx", rows, s.c, matrices(3),
				func(in [][]float32, out []float32) { s.inputGrad(in[0], in[1], in[2], out) }), in[0], in[1], dy)
		}
		if diff[1] {
			grads[1] = l.apply(newKernel(name+".dweight", 1, s.c, matrices(2),
				func(in [][]float32, out []float32) { s.weightGrad(in[0], in[1], out) }), in[0], dy)
			grads[2] = l.apply(newKernel(name+".dbias", 1, s.c, matrices(1),
				func(in [][]float32, out []float32) { l.work.columnSums(in[0], out) }), dy)
		}
		return grads, l.err
	})
	l.node = l.apply(k, l.node, w, b)
	l.live = l.live || l.want == paramGrads
}

// batchNorm is a batch normalisation in training, whose running statistics are updated after a run.
type batchNorm struct {
	*standardiser
	runningMean, runningVar []float32 // of the parameters, shared
}

// batchNorm adds a normalisation over groups of rows.
func (l *lowering) batchNorm(name string, area, channels int, p model.Params) {
	if l.group < 1 || l.n%l.group != 0 {
		l.err = fmt.Errorf("layer %s: batch normalisation: groups of %d rows do not divide %d rows", name, l.group, l.n)
		return
	}
	if l.group*area < 2 {
		l.err = fmt.Errorf("layer %s: batch normalisation: one row of one position has no variance: use larger batches or another norm", name)
		return
	}
	s := newStandardiser(l.n/l.group, l.group*area, channels, channels)
	mean, _ := p.Lookup(name + ".running_mean")
	variance, _ := p.Lookup(name + ".running_var")
	l.norms = append(l.norms, &batchNorm{standardiser: s, runningMean: mean.Data, runningVar: variance.Data})
	l.standardise(name, s, p)
}

// update moves the running statistics towards those of the first segments of the last run, one after the other (Ioffe
// and Szegedy 2015, section 3.1: the variance is the unbiased one).
func (b *batchNorm) update(segments int) {
	unbias := float64(b.count()) / float64(b.count()-1)
	for i := range segments {
		for c := range b.c {
			blend(&b.runningMean[c], b.mean[i*b.c+c])
			blend(&b.runningVar[c], b.variance[i*b.c+c]*unbias)
		}
	}
}

func blend(running *float32, v float64) {
	*running = float32((1-model.NormMomentum)*float64(*running) + model.NormMomentum*v)
}

// runningNorm adds a batch normalisation by the running statistics: an affine map of each channel.
func (l *lowering) runningNorm(name string, p model.Params) {
	rows, cols := l.matrix()
	in := G.Nodes{l.node}
	for _, role := range []string{".weight", ".bias", ".running_mean", ".running_var"} {
		t, _ := p.Lookup(name + role)
		in = append(in, l.input(t.Name, 1, cols, t.Data))
	}
	factor := func(w, variance []float32) []float64 {
		f := make([]float64, cols)
		for c := range f {
			f[c] = float64(w[c]) / math.Sqrt(float64(variance[c])+model.NormEpsilon)
		}
		return f
	}
	k := newKernel(name, rows, cols, matrices(5), func(in [][]float32, out []float32) {
		f, mean, bias := factor(in[1], in[4]), in[3], in[2]
		for at := 0; at < len(out); at += cols {
			row := out[at : at+cols]
			for c, v := range in[0][at : at+cols] {
				row[c] = float32((float64(v)-float64(mean[c]))*f[c] + float64(bias[c]))
			}
		}
	})
	k.differentiable([]bool{l.live, false, false, false, false}, func(in G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		dx := l.apply(newKernel(name+".dx", rows, cols, matrices(3), func(in [][]float32, out []float32) {
			f := factor(in[0], in[1])
			for at := 0; at < len(out); at += cols {
				row := out[at : at+cols]
				for c, v := range in[2][at : at+cols] {
					row[c] = float32(float64(v) * f[c])
				}
			}
		}), in[1], in[4], dy)
		return G.Nodes{dx, nil, nil, nil, nil}, l.err
	})
	l.node = l.apply(k, in...)
}
