// Package selftest checks the gradient graph of a model against the model itself, as it runs in ONNX Runtime: whoever
// made the graph, whatever was wrong with it is found on a probe batch before anything is computed with it.
package selftest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// Graph is a gradient graph under test: a session with one float32 input of samples.
type Graph struct {
	Session *ort.Session
	Name    string // in errors
	Input   string // input [N, Shape...]
	Shape   []int  // of one sample
	Logits  string // output [N, K]
	Score   string // output [N, ...]: the gradient, with as many values a row as the input
	Batch   int    // the only batch size that the session takes; 0: any

	// Readout turns the logits of a row into the number that Score is the gradient of.
	Readout func(logits []float32) float64

	// Half says that the model computes with 16 bits, of which central differences keep little.
	Half bool

	// From, Scale say with respect to what Score is the gradient: its value i belongs to u with
	// u[i] = x[From[i]] Scale[i] + a constant, where x is the input. Nil: to x itself.
	From  []int
	Scale []float64
}

// Report is what the test measured.
type Report struct {
	Rows        int `json:"rows"`
	Coordinates int `json:"coordinates"` // partial derivatives compared with central differences
	// Error is how far, at most, a partial derivative lies outside the differences forward and backward, relative to the
	// largest partial derivative of its row, without the Kinks.
	Error float64 `json:"error"`
	// Median is the median of the differences between partial derivatives and their central differences, likewise.
	Median float64 `json:"median"`
	// Outside counts partial derivatives whose error is more than Tolerance. One in fifty may be: the model may bend
	// more often than the differences show.
	Outside int `json:"outside"`
	// Kinks counts coordinates that could not be compared, because at no step size the differences forward and backward
	// agree: the model has kinks all around, or float32 does not resolve the difference.
	Kinks int `json:"kinks"`
	// Alone is the largest difference between the gradient of a row in a batch and on its own, relative to the largest
	// value; 0 where the session takes one batch size only and the neighbours were changed instead.
	Alone float64 `json:"alone"`
	// Largest is the largest absolute partial derivative on the probe.
	Largest float64 `json:"largest"`
	// Note says why the test tells little, where most partial derivatives could not be compared; empty otherwise.
	Note string `json:"note,omitempty"`
}

const (
	// Tolerance is the largest Error that passes: float32 logits leave central differences about three digits.
	Tolerance = 1e-2
	// perRow is how many partial derivatives of each row are compared: half of them the largest of the row.
	perRow = 8
	// togetherTolerance is what another order of sums, for another batch size, may change.
	togetherTolerance = 1e-4
	// jitter is how far samples are moved, relative to the size of their values.
	jitter = 0x1p-6
	// singleError is the relative error that the logits of a network in float32 can be trusted to have at most: some
	// units in the last place; halfError is that of float16.
	singleError, halfError = 2 * 0x1p-23, 2 * 0x1p-10
	// resolved is the widest that differences forward and backward, or rounding, may be apart to tell something.
	resolved = 5 * Tolerance
)

// steps are the distances of central differences relative to the size of the values, powers of two so that they are
// exact in float32.
var steps = []float64{0x1p-4, 0x1p-6, 0x1p-8, 0x1p-10, 0x1p-12, 0x1p-14}

// Run tests a gradient graph on the rows of x, samples one after another; two or more. A graph that fails is an error of
// kind fault.Data that says what is wrong with it; the report holds what was measured until then.
func (g Graph) Run(ctx context.Context, x []float32, seed uint64) (Report, error) {
	t, err := g.open(x, seed)
	if err != nil {
		return Report{}, err
	}
	defer t.close()
	if err := t.measure(ctx); err != nil {
		return t.report, err
	}
	err = t.verdict()
	return t.report, err
}

// test is one run of the test.
type test struct {
	Graph
	call          *ort.Call
	x             []float32
	rows, width   int
	batch         int
	in            *ort.Tensor
	seed          keyed.Source
	report        Report
	logits, score []float32 // of all rows together
	classes       int
	frozen        bool      // all rows have the same gradient, to the bit
	ratios        []float64 // score over numeric derivative where the latter is large
	alone         []float32
	apart         []float64 // partial derivatives from central differences
}

func (g Graph) open(x []float32, seed uint64) (*test, error) {
	width := 1
	for _, d := range g.Shape {
		width *= d
	}
	if width == 0 || len(x)%width != 0 || len(x) < 2*width {
		return nil, fault.New(fault.Internal, g.Name, "%d values for a probe of samples of shape %v", len(x), g.Shape)
	}
	call, err := g.Session.Bind([]string{g.Input}, []string{g.Logits, g.Score})
	if err != nil {
		return nil, err
	}
	t := &test{Graph: g, call: call, x: slices.Clone(x), rows: len(x) / width, width: width, seed: keyed.New(seed, "gradient self-test")}
	t.batch = t.rows
	if g.Batch > 0 {
		t.batch = g.Batch
	}
	t.report.Rows = t.rows
	t.jitter()
	return t, nil
}

// jitter moves the samples a little, each value by chance: a constant background makes many values of a network exactly
// equal, and where a pooling layer takes the largest of equal values there is no derivative.
func (t *test) jitter() {
	for r := range t.rows {
		rng, reach := t.seed.At(uint64(r), 1), t.reach(r)
		for i := range t.width {
			t.x[r*t.width+i] += float32(reach * jitter * (2*rng.Float64() - 1))
		}
	}
}

// reach is about the size of the values of a row, a power of two.
func (t *test) reach(r int) float64 {
	size, reach := 0.0, 1.0
	for _, v := range t.x[r*t.width : (r+1)*t.width] {
		size = max(size, math.Abs(float64(v)))
	}
	for reach < size {
		reach *= 2
	}
	for reach > size && reach > 0x1p-6 {
		reach /= 2
	}
	return reach
}

func (t *test) close() {
	if t.in != nil {
		t.in.Close()
	}
}

// run gives logits and score of some samples, in batches of a size.
func (t *test) run(ctx context.Context, x []float32, batch int) (logits, score []float32, err error) {
	shape := []int64{int64(batch)}
	for _, d := range t.Shape {
		shape = append(shape, int64(d))
	}
	in, err := ort.Float32(shape, nil)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	n := len(x) / t.width
	for at := 0; at < n; at += batch {
		for r := range batch {
			row := min(at+r, n-1)
			copy(in.Data()[r*t.width:(r+1)*t.width], x[row*t.width:])
		}
		out := []*ort.Tensor{nil, nil}
		if err := t.call.Run(ctx, []*ort.Tensor{in}, out); err != nil {
			return nil, nil, err
		}
		rows := min(batch, n-at)
		a, b := out[0].Data(), out[1].Data()
		fits := len(a)%batch == 0 && len(b) == batch*t.width
		if fits {
			logits = append(logits, a[:rows*len(a)/batch]...)
			score = append(score, b[:rows*t.width]...)
		}
		out[0].Close()
		out[1].Close()
		if !fits {
			return nil, nil, fault.New(fault.Data, t.Name, "output %s has %d values for %d samples of shape %v: it is not the gradient of each sample", t.Score, len(b), batch, t.Shape).
				Do("give the gradient of the sum over the batch, which has a row for each sample")
		}
	}
	return logits, score, nil
}

func (t *test) measure(ctx context.Context) (err error) {
	if t.logits, t.score, err = t.run(ctx, t.x, t.batch); err != nil {
		return err
	}
	t.classes = len(t.logits) / t.rows
	for i, v := range t.score {
		if v != v || math.IsInf(float64(v), 0) {
			return fault.New(fault.Data, t.Name, "the gradient of row %d of the probe is %v", i/t.width, v).
				Do("check the preprocessing: the inputs may be out of the range that the model can take")
		}
		t.report.Largest = max(t.report.Largest, math.Abs(float64(v)))
	}
	t.frozen = true
	for r := 1; r < t.rows && t.frozen; r++ {
		t.frozen = slices.Equal(t.score[r*t.width:(r+1)*t.width], t.score[:t.width])
	}
	if err := t.together(ctx); err != nil {
		return err
	}
	for r := range t.rows {
		if err := t.row(ctx, r); err != nil {
			return err
		}
	}
	slices.Sort(t.apart)
	if n := len(t.apart); n > 0 {
		t.report.Median = t.apart[n/2]
	}
	t.report.Coordinates = len(t.apart)
	return nil
}

// together compares the gradients of a batch with those of its rows alone, or, where there is one batch size, in other
// company.
func (t *test) together(ctx context.Context) (err error) {
	if t.Batch > 0 {
		turned := slices.Concat(t.x[t.width:], t.x[:t.width])
		_, score, err := t.run(ctx, turned, t.batch)
		if err != nil {
			return err
		}
		t.alone = slices.Concat(score[len(score)-t.width:], score[:len(score)-t.width])
	} else if _, t.alone, err = t.run(ctx, t.x, 1); err != nil {
		return err
	}
	for i, v := range t.alone {
		t.report.Alone = max(t.report.Alone, math.Abs(float64(v)-float64(t.score[i])))
	}
	if t.report.Largest > 0 {
		t.report.Alone /= t.report.Largest
	}
	return nil
}

// row compares some partial derivatives of a row with central differences.
func (t *test) row(ctx context.Context, r int) error {
	score, x := t.score[r*t.width:(r+1)*t.width], t.x[r*t.width:(r+1)*t.width]
	largest := 0.0
	for _, v := range score {
		largest = max(largest, math.Abs(float64(v)))
	}
	picked, reach := t.pick(score, r), t.reach(r)
	var moved []float32
	for _, i := range picked {
		for _, s := range steps {
			for _, sign := range []float32{1, -1} {
				at := t.from(i)
				sample := slices.Clone(x)
				sample[at] += sign * float32(s*reach)
				moved = append(moved, sample...)
			}
		}
	}
	logits, _, err := t.run(ctx, moved, t.batch)
	if err != nil {
		return err
	}
	value := func(k int) float64 { return t.Readout(logits[k*t.classes : (k+1)*t.classes]) }
	z := t.logits[r*t.classes : (r+1)*t.classes]
	here, rounding := t.Readout(z), 0.0
	for _, v := range z {
		rounding = max(rounding, t.ulps()*math.Abs(float64(v)))
	}
	for n, i := range picked {
		var slopes []slope
		at := t.from(i)
		for j := range steps {
			k := 2 * (n*len(steps) + j)
			ahead, back := float64(moved[k*t.width+at])-float64(x[at]), float64(x[at])-float64(moved[(k+1)*t.width+at])
			up, down := value(k), value(k+1)
			slopes = append(slopes, slope{central: (up - down) / ((ahead + back) * t.scale(i)), ahead: (up - here) / (ahead * t.scale(i)),
				back: (here - down) / (back * t.scale(i)), noise: math.Abs(rounding / (ahead * t.scale(i)))})
		}
		t.compare(float64(score[i]), slopes, largest)
	}
	return nil
}

// slope is the difference quotients of one step size: central, forward and backward, and what rounding of the logits
// may add to them.
type slope struct{ central, ahead, back, noise float64 }

func (t *test) from(i int) int {
	if t.From == nil {
		return i
	}
	return t.From[i]
}

func (t *test) scale(i int) float64 {
	if t.Scale == nil {
		return 1
	}
	return t.Scale[i]
}

// pick chooses coordinates of a row: half of them those with the largest partial derivatives, half by chance.
func (t *test) pick(score []float32, r int) []int {
	order := make([]int, len(score))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(math.Abs(float64(score[b])), math.Abs(float64(score[a])))
	})
	top := min(perRow/2, len(order))
	rng := t.seed.At(uint64(r), 0)
	rest := order[top:]
	rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return order[:min(perRow, len(order))]
}

// compare takes the best of the step sizes that tell something. A partial derivative is right when it lies between the
// differences forward and backward, which at a kink of the model are the two slopes, and elsewhere are all but equal.
func (t *test) compare(score float64, slopes []slope, largest float64) {
	scale := largest
	for _, s := range slopes {
		scale = max(scale, math.Abs(s.central))
	}
	if scale == 0 {
		t.apart = append(t.apart, 0)
		return
	}
	outside, apart := math.Inf(1), math.Inf(1)
	for _, s := range slopes {
		lo, hi := min(s.ahead, s.back), max(s.ahead, s.back)
		if max(s.noise, hi-lo) > resolved*scale {
			continue
		}
		outside = min(outside, max(0, lo-s.noise-score, score-hi-s.noise)/scale)
		apart = min(apart, math.Abs(score-s.central)/scale)
		if math.Abs(s.central) > 0.1*scale {
			t.ratios = append(t.ratios, score/s.central)
		}
	}
	if math.IsInf(outside, 1) {
		t.report.Kinks++
		return
	}
	t.apart = append(t.apart, apart)
	t.report.Error = max(t.report.Error, outside)
	if outside > Tolerance {
		t.report.Outside++
	}
}

func (t *test) ulps() float64 {
	if t.Half {
		return halfError
	}
	return singleError
}

// aloneTolerance is the largest difference that passes between the gradients of a row in a batch and alone.
func (t *test) aloneTolerance() float64 {
	if t.Half {
		return 2e-2
	}
	return togetherTolerance
}

// verdict says what is wrong with the graph, if anything is.
func (t *test) verdict() error {
	n := float64(t.batch)
	bad := func(format string, args ...any) *fault.Error { return fault.New(fault.Data, t.Name, format, args...) }
	wrong := t.report.Outside > max(1, t.report.Coordinates/50)
	switch {
	case t.frozen && t.report.Largest > 0 && wrong:
		return bad("the gradient is a frozen constant: it is the same for all %d rows of the probe, although the model is not linear", t.rows).
			Do("it was computed when the model was exported; export it with a gradient that depends on the input, or leave it out and have it built")
	case t.batch > 1 && t.isMean(n):
		return bad("the gradient is that of the mean over the batch: in a batch of %d it is 1/%d of what it is alone", t.batch, t.batch).
			Do("give the gradient of the sum over the batch, whose rows are the gradients of the rows")
	case t.report.Alone > t.aloneTolerance():
		return bad("the gradient of a row depends on its neighbours in the batch: the difference is %.3g of the largest value", t.report.Alone).
			Do("export the model in inference mode: batch statistics make rows depend on each other")
	case wrong:
		return bad("the gradient disagrees with central differences: %d of %d partial derivatives are off by more than %g of the largest in their row, the worst by %.3g%s",
			t.report.Outside, t.report.Coordinates, Tolerance, t.report.Error, t.factor())
	case t.report.Coordinates < t.report.Kinks:
		t.report.Note = fmt.Sprintf("%d of %d partial derivatives could not be compared with central differences: the model has kinks there, or changes too little for its precision",
			t.report.Kinks, t.report.Kinks+t.report.Coordinates)
	}
	return nil
}

// isMean says whether the gradients of the batch are 1/n of those of the rows alone.
func (t *test) isMean(n float64) bool {
	if t.Batch > 0 {
		return t.report.Outside > 0 && t.constantRatio(1/n)
	}
	for i, v := range t.alone {
		if math.Abs(float64(t.score[i])*n-float64(v)) > togetherTolerance*t.report.Largest*n {
			return false
		}
	}
	return t.report.Largest > 0
}

// constantRatio says whether the gradient is a fixed multiple of what central differences give.
func (t *test) constantRatio(want float64) bool {
	if len(t.ratios) == 0 {
		return false
	}
	for _, r := range t.ratios {
		if math.Abs(r-want) > 0.05*math.Abs(want) {
			return false
		}
	}
	return true
}

// factor names a constant factor between gradient and differences, such as a sign or the slope of the preprocessing.
func (t *test) factor() string {
	if len(t.ratios) == 0 || t.ratios[0] == 0 || !t.constantRatio(t.ratios[0]) {
		return ""
	}
	return fmt.Sprintf("; it is about %.3g times what it should be", t.ratios[0])
}
