package train

import (
	"math"

	"github.com/jempipe/jempipe/score"
)

// Batch is the rows of one parameter update with their weights in the loss
//
//	loss = sum_r alpha_r*lse_r + beta_r*lse_r^2 + sum_k gamma_rk*z_rk,   lse_r = log sum_k exp z_rk
//
// for logits z. Cross-entropy, the difference of mean log densities, the joint term and the energy regulariser are
// all such sums, so that a single backward pass over all rows gives the gradient of the whole objective.
type Batch struct {
	X     []float32 // [N, input shape], model space, row-major
	Alpha []float32 // [N]
	Beta  []float32 // [N]
	Gamma []float32 // [N,K]
}

// rowRange is the rows of a batch that are there for one purpose.
type rowRange struct{ from, to int }

func (r rowRange) n() int { return r.to - r.from }

// layout is where each group of rows stands in a batch. A group that is not used is empty.
type layout struct {
	data     rowRange // real rows for p(x)
	labelled rowRange // real rows for p(y|x) and p(x,y); equals data with one batch
	samples  rowRange // chains of p(x)
	joint    rowRange // chains of p(x,y)
	rows     int
}

func (c Config) layout() layout {
	var l layout
	next := func() rowRange {
		r := rowRange{l.rows, l.rows + c.BatchSize}
		l.rows = r.to
		return r
	}
	w := c.weights()
	if w.PX > 0 {
		l.data = next()
	}
	switch {
	case !c.Supervised():
	case c.OneBatch && w.PX > 0:
		l.labelled = l.data
	default:
		l.labelled = next()
	}
	if w.PX > 0 {
		l.samples = next()
	}
	if w.PXY > 0 {
		l.joint = next()
	}
	return l
}

// positive and negative are the real rows and the chains whose energies are compared: those of p(x), or where that has
// no weight those of p(x|y).
func (l layout) positive() rowRange {
	if l.data.n() == 0 && l.joint.n() > 0 {
		return l.labelled
	}
	return l.data
}

func (l layout) negative() rowRange {
	if l.samples.n() == 0 {
		return l.joint
	}
	return l.samples
}

// Rows is the number of rows of every batch of a run: what an engine is built for.
func (c Config) Rows() int { return c.layout().rows }

// weigh sets the weights of a batch. labels and classes are those of the labelled rows and of the joint chains; a
// label below 0 is unknown and leaves its row out of the supervised terms.
func (c Config) weigh(l layout, b Batch, k int, labels, classes []int32) {
	clear(b.Alpha)
	clear(b.Beta)
	clear(b.Gamma)
	w := c.weights()
	spread(b.Alpha, l.data, -w.PX)
	spread(b.Alpha, l.samples, w.PX)
	perClass(b.Gamma, l.joint, k, classes, w.PXY)
	if w.PXY > 0 {
		perClass(b.Gamma, l.labelled, k, labels, -w.PXY)
	}
	if c.Generative() {
		spread(b.Beta, l.positive(), w.EnergyReg)
		spread(b.Beta, l.negative(), w.EnergyReg)
	}
	if n := known(labels); n > 0 {
		c.crossEntropy(l, b, k, labels, w.PYgivenX/float64(n))
	}
	if c.Accumulate > 1 {
		for _, s := range [][]float32{b.Alpha, b.Beta, b.Gamma} {
			for i := range s {
				s[i] /= float32(c.Accumulate)
			}
		}
	}
}

// crossEntropy adds the cross-entropy of each labelled row with the given weight: lse - sum_k t_k z_k for the smoothed
// label t.
func (c Config) crossEntropy(l layout, b Batch, k int, labels []int32, weight float64) {
	smooth := c.Loss.Smoothing
	for i, y := range labels {
		if y < 0 {
			continue
		}
		r := l.labelled.from + i
		b.Alpha[r] += float32(weight)
		b.Gamma[r*k+int(y)] -= float32(weight * (1 - smooth))
		for j := range b.Gamma[r*k : (r+1)*k] {
			b.Gamma[r*k+j] -= float32(weight * smooth / float64(k))
		}
	}
}

func spread(weights []float32, r rowRange, total float64) {
	for i := r.from; i < r.to; i++ {
		weights[i] += float32(total / float64(r.n()))
	}
}

// perClass spreads a weight over the logits of the known classes of a group.
func perClass(gamma []float32, r rowRange, k int, classes []int32, total float64) {
	n := known(classes)
	for i := range r.n() {
		if total != 0 && classes[i] >= 0 {
			gamma[(r.from+i)*k+int(classes[i])] += float32(total / float64(n))
		}
	}
}

// known counts the classes that are not below 0.
func known(classes []int32) int {
	n := 0
	for _, y := range classes {
		if y >= 0 {
			n++
		}
	}
	return n
}

// Terms are the parts of the loss of one step, from the logits in float64, means over the batches of the step. f is
// the log-sum-exp of the logits, minus the energy; where the objective has p(x|y) but no p(x), f of FData and FSamples
// is the logit of the row's class.
type Terms struct {
	Loss     float64 // their weighted sum
	PX       float64 // mean f(samples) - mean f(data); NaN without chains of p(x)
	PYgivenX float64 // cross-entropy with smoothed labels; NaN without labels
	PXY      float64 // mean f(samples, y) - mean f(data, y); NaN where unused
	Reg      float64 // energy regulariser; NaN without chains

	FData     float64 // mean f of the real rows; NaN without chains
	FSamples  float64 // mean f of the chains; NaN without chains
	Accuracy  float64 // share of labelled rows whose largest logit is their label; NaN without labels
	MaxAbsF   float64 // largest |f| of all rows
	NonFinite int     // first row with a non-finite logit, or -1
}

// terms computes the parts of the loss from logits [N,K].
func (c Config) terms(l layout, logits []float32, k int, labels, classes []int32) Terms {
	nan := math.NaN()
	t := Terms{PX: nan, PYgivenX: nan, PXY: nan, Reg: nan, FData: nan, FSamples: nan, Accuracy: nan, NonFinite: -1}
	f := make([]float64, l.rows)
	for r := range f {
		f[r] = score.LogSumExp(logits[r*k : (r+1)*k])
		if math.IsNaN(f[r]) || math.IsInf(f[r], 0) {
			t.NonFinite = r
			return t
		}
		t.MaxAbsF = max(t.MaxAbsF, math.Abs(f[r]))
	}
	w := c.weights()
	if c.Generative() {
		var sq1, sq2 float64
		t.FData, sq1 = moments(f, l.positive())
		t.FSamples, sq2 = moments(f, l.negative())
		t.Reg = sq1 + sq2
		t.Loss += w.EnergyReg * t.Reg
	}
	if w.PX > 0 {
		t.PX = t.FSamples - t.FData
		t.Loss += w.PX * t.PX
	}
	if w.PXY > 0 && known(labels) > 0 {
		data, samples := meanLogit(logits, l.labelled, k, labels), meanLogit(logits, l.joint, k, classes)
		t.PXY = samples - data
		t.Loss += w.PXY * t.PXY
		if w.PX == 0 {
			t.FData, t.FSamples = data, samples
		}
	}
	t.supervised(c, l, logits, f, k, labels)
	return t
}

func (t *Terms) supervised(c Config, l layout, logits []float32, f []float64, k int, labels []int32) {
	var sum float64
	n, right := 0, 0
	smooth := c.Loss.Smoothing
	for i, y := range labels {
		if y < 0 {
			continue
		}
		r := l.labelled.from + i
		z := logits[r*k : (r+1)*k]
		sum += f[r] - (1-smooth)*float64(z[y])
		for _, v := range z {
			sum -= smooth / float64(k) * float64(v)
		}
		n++
		if pred, _ := score.Argmax(z); pred == int(y) {
			right++
		}
	}
	if n == 0 {
		return
	}
	t.Accuracy = float64(right) / float64(n)
	if w := c.weights().PYgivenX; w > 0 {
		t.PYgivenX = sum / float64(n)
		t.Loss += w * t.PYgivenX
	}
}

// add adds the terms of another batch of the same step, with the given share of the step.
func (t *Terms) add(o Terms, share float64) {
	for _, p := range [][2]*float64{{&t.Loss, &o.Loss}, {&t.PX, &o.PX}, {&t.PYgivenX, &o.PYgivenX}, {&t.PXY, &o.PXY}, {&t.Reg, &o.Reg},
		{&t.FData, &o.FData}, {&t.FSamples, &o.FSamples}, {&t.Accuracy, &o.Accuracy}} {
		*p[0] += share * *p[1]
	}
	t.MaxAbsF = max(t.MaxAbsF, o.MaxAbsF)
	if t.NonFinite < 0 {
		t.NonFinite = o.NonFinite
	}
}

// moments are the mean of f and of its square over a group of rows.
func moments(f []float64, r rowRange) (mean, square float64) {
	for _, v := range f[r.from:r.to] {
		mean += v
		square += v * v
	}
	n := float64(r.n())
	return mean / n, square / n
}

func meanLogit(logits []float32, r rowRange, k int, classes []int32) float64 {
	var sum float64
	for i := range r.n() {
		if y := classes[i]; y >= 0 {
			sum += float64(logits[(r.from+i)*k+int(y)])
		}
	}
	return sum / float64(known(classes))
}
