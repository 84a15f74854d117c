package train

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/score"
)

// linear is a classifier z = W x + b in plain Go: engine and density at once, an independent stand-in for both.
type linear struct {
	dim, k int
	w, g   model.Params // one tensor each, [k, dim+1], bias last
	break_ int          // the call whose logits become NaN; 0: none
	calls  int
}

func newLinear(dim, k int) *linear {
	m := &linear{dim: dim, k: k}
	for _, ps := range []*model.Params{&m.w, &m.g} {
		*ps = model.Params{{Name: "w", Shape: []int{k, dim + 1}, Data: make([]float32, k*(dim+1))}}
	}
	rng := keyed.New(5, "linear").At(0, 0)
	for i := range m.w[0].Data {
		m.w[0].Data[i] = float32(0.1 * rng.NormFloat64())
	}
	return m
}

func (m *linear) logits(x []float32) []float32 {
	n := len(x) / m.dim
	z := make([]float32, n*m.k)
	for r := range n {
		for c := range m.k {
			w := m.w[0].Data[c*(m.dim+1) : (c+1)*(m.dim+1)]
			sum := float64(w[m.dim])
			for j := range m.dim {
				sum += float64(w[j]) * float64(x[r*m.dim+j])
			}
			z[r*m.k+c] = float32(sum)
		}
	}
	return z
}

func softmax(z []float32) []float64 {
	f, p := score.LogSumExp(z), make([]float64, len(z))
	for i, v := range z {
		p[i] = math.Exp(float64(v) - f)
	}
	return p
}

func (m *linear) Gradients(b Batch) ([]float32, error) {
	m.calls++
	z := m.logits(b.X)
	for r := range b.Alpha {
		row := z[r*m.k : (r+1)*m.k]
		p, f := softmax(row), score.LogSumExp(row)
		for c := range m.k {
			d := (float64(b.Alpha[r])+2*float64(b.Beta[r])*f)*p[c] + float64(b.Gamma[r*m.k+c])
			g := m.g[0].Data[c*(m.dim+1) : (c+1)*(m.dim+1)]
			for j := range m.dim {
				g[j] += float32(d * float64(b.X[r*m.dim+j]))
			}
			g[m.dim] += float32(d)
		}
	}
	if m.calls == m.break_ {
		z[7] = float32(math.NaN())
	}
	return z, nil
}

func (m *linear) Grads() model.Params { return m.g }

// descent is gradient descent, w -= lr*g.
type descent struct{ w, g model.Params }

func (d descent) Step(lr float64) error {
	for i, g := range d.g {
		for j, v := range g.Data {
			d.w[i].Data[j] -= float32(lr * float64(v))
		}
	}
	return nil
}

func (d descent) State() (model.Params, int)       { return nil, 0 }
func (d descent) SetState(model.Params, int) error { return nil }

func (m *linear) Close() error { return nil }

func (m *linear) Gradient(_ context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	z := m.logits(x)
	for r := range logp {
		row := z[r*m.k : (r+1)*m.k]
		p := softmax(row)
		logp[r] = score.LogSumExp(row)
		if classes != nil {
			clear(p)
			p[classes[r]] = 1
			logp[r] = float64(row[classes[r]])
		}
		for j := range m.dim {
			var g float64
			for c := range m.k {
				g += p[c] * float64(m.w[0].Data[c*(m.dim+1)+j])
			}
			grad[r*m.dim+j] = float32(g)
		}
	}
	return nil
}

// blobs are three Gaussian clusters.
func blobs(n int) Data {
	d := Data{Dim: 2, Classes: 3}
	rng := keyed.New(1, "blobs").At(0, 0)
	centres := [][2]float64{{-0.6, -0.6}, {0.6, -0.6}, {0, 0.6}}
	for i := range n {
		c := i % 3
		d.Labels = append(d.Labels, int32(c))
		for j := range 2 {
			d.X = append(d.X, float32(centres[c][j]+0.1*rng.NormFloat64()))
		}
	}
	d.ValidX, d.ValidLabels = d.X[:60], d.Labels[:30]
	return d
}

func toy(change func(*Config)) Config {
	c := Default()
	c.Steps, c.BatchSize, c.EvalEvery = 60, 16, 20
	c.Sampler.BufferSize, c.Sampler.Steps = 300, 5
	c.Optimizer.LR, c.Optimizer.Warmup = 0.2, 5
	c.Guard.OnDivergence, c.Checkpoint.Minutes = "fail", 0
	if change != nil {
		change(&c)
	}
	return c
}

func runToy(t *testing.T, c Config, m *linear) (Result, error) {
	t.Helper()
	return Run(context.Background(), c, blobs(150), 1, toyDeps(m, m))
}

// toyDeps are those of a linear model with its gradient taken by an engine.
func toyDeps(m *linear, e Engine) Deps {
	return Deps{Params: m.w, Engine: e, Updater: descent{m.w, m.g}, Densities: []langevin.Density{m, m}, Log: slog.New(slog.DiscardHandler),
		Predict: func(_ context.Context, x []float32) ([]float32, error) { return m.logits(x), nil }}
}

func TestEveryObjectiveLearns(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"jem":               nil,
		"classifier":        func(c *Config) { c.Objective = "classifier" },
		"conditional":       func(c *Config) { c.Objective = "conditional" },
		"label smoothing":   func(c *Config) { c.Loss.Smoothing = 0.1 },
		"accumulated":       func(c *Config) { c.Accumulate = 3 },
		"moving average":    func(c *Config) { c.EMA = 0.9 },
		"best":              func(c *Config) { c.Select = "best_nll" },
		"one batch":         func(c *Config) { c.OneBatch = true },
		"class conditional": func(c *Config) { c.Sampler.Conditional = true },
		"p(x,y)":            func(c *Config) { c.Loss.PXY = 0.5 },
		"few labels":        func(c *Config) { c.PerClass = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			res, err := runToy(t, toy(change), newLinear(2, 3))
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Records) != 60 {
				t.Fatalf("%d records, want 60", len(res.Records))
			}
			last := res.Records[59]
			if name == "conditional" {
				// A linear density at so low a temperature cannot hold its samples inside the box: its slopes stay near 0.
				if !(math.Abs(last.Gap()) < 0.2) {
					t.Errorf("gap %v after 60 steps", last.Gap())
				}
			} else if !(last.ValidAccuracy > 0.95) || !(last.ValidNLL < 1) {
				t.Errorf("validation accuracy %v and NLL %v after 60 steps", last.ValidAccuracy, last.ValidNLL)
			}
			if name == "classifier" != (res.Buffer == nil) || (name == "classifier" || name == "conditional") != math.IsNaN(last.PX) {
				t.Errorf("buffer %v and p(x) term %v", res.Buffer != nil, last.PX)
			}
			if (name == "classifier") != math.IsNaN(last.Gap()) {
				t.Errorf("gap %v", last.Gap())
			}
			if (name == "p(x,y)" || name == "conditional") == math.IsNaN(last.PXY) {
				t.Errorf("p(x,y) term is %v", last.PXY)
			}
		})
	}
}

func TestSameSeedSameRun(t *testing.T) {
	c := toy(func(c *Config) { c.Loss.PXY, c.Sampler.Conditional = 0.5, true })
	a, b := newLinear(2, 3), newLinear(2, 3)
	ra, err := runToy(t, c, a)
	if err != nil {
		t.Fatal(err)
	}
	rb, err := runToy(t, c, b)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.w[0].Data, b.w[0].Data) || !slices.Equal(ra.Buffer.X, rb.Buffer.X) {
		t.Error("two runs with one seed differ")
	}
}

// The weights of a batch and the reported terms are computed apart; their sums must agree.
func TestTermsAreTheWeightedLoss(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"all terms":   func(c *Config) { c.Loss = Loss{PX: 0.7, PYgivenX: 1.3, PXY: 0.4, EnergyReg: 0.2} },
		"one batch":   func(c *Config) { c.OneBatch, c.Loss.PXY = true, 0.4 },
		"smoothing":   func(c *Config) { c.Loss.Smoothing = 0.2 },
		"conditional": func(c *Config) { c.Objective, c.Loss.PXgivenY = "conditional", 0.6 },
		"density":     func(c *Config) { c.Objective = "density" },
		"classifier":  func(c *Config) { c.Objective = "classifier" },
	} {
		c := toy(change)
		l, k := c.layout(), 4
		rng := keyed.New(2, name).At(0, 0)
		b := Batch{Alpha: make([]float32, l.rows), Beta: make([]float32, l.rows), Gamma: make([]float32, l.rows*k)}
		z := make([]float32, l.rows*k)
		for i := range z {
			z[i] = float32(3 * rng.NormFloat64())
		}
		labels, classes := make([]int32, c.BatchSize), make([]int32, l.joint.n())
		for i := range labels {
			labels[i] = int32(rng.IntN(k+1)) - 1
		}
		for i := range classes {
			classes[i] = int32(rng.IntN(k))
		}
		c.weigh(l, b, k, labels, classes)
		var want float64
		for r := range l.rows {
			f := score.LogSumExp(z[r*k : (r+1)*k])
			want += float64(b.Alpha[r])*f + float64(b.Beta[r])*f*f
			for j := range k {
				want += float64(b.Gamma[r*k+j]) * float64(z[r*k+j])
			}
		}
		if got := c.terms(l, z, k, labels, classes).Loss; math.Abs(got-want) > 1e-5*math.Abs(want) {
			t.Errorf("%s: terms add up to %v, the weighted loss is %v", name, got, want)
		}
	}
}

func TestDivergedRunNamesTheStep(t *testing.T) {
	m := newLinear(2, 3)
	m.break_ = 8
	res, err := runToy(t, toy(nil), m)
	if err == nil || !strings.Contains(err.Error(), "step 8 of 60") || !strings.Contains(err.Error(), "row 2") {
		t.Errorf("error %v, want step 8 of 60 and row 2 named", err)
	}
	if len(res.Records) != 8 || res.Records[7].Event == "" || len(res.Events) != 1 {
		t.Errorf("%d records kept, want 8, the last one with an event; %d events", len(res.Records), len(res.Events))
	}
	for name, change := range map[string]func(*Config){
		"max_loss":   func(c *Config) { c.Guard.MaxLoss = 1e-3 },
		"max_energy": func(c *Config) { c.Guard.MaxEnergy = 1e-3 },
		"max_gap":    func(c *Config) { c.Guard.MaxGap = 1e-9 },
	} {
		if _, err := runToy(t, toy(change), newLinear(2, 3)); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "step 1 of 60") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	nan := Record{Terms: Terms{NonFinite: -1, Loss: 1}, GradNorm: math.NaN()}
	if Default().Guard.inspect(nan) == nil {
		t.Error("a NaN gradient norm was accepted")
	}
}

func TestGapAlarm(t *testing.T) {
	var log bytes.Buffer
	r := run{cfg: Default(), deps: Deps{Log: slog.New(slog.NewTextHandler(&log, nil))}, width: 2}
	for step := range 900 {
		rec := Record{Step: step, Terms: Terms{FData: 5, FSamples: 1}, DataMean: -0.5, SampleMean: -0.4}
		if step >= 300 && step < 500 {
			rec.FSamples = 5
		}
		if found := r.look(&rec); found != nil {
			t.Fatal(found)
		}
		if want := 1.0; step == 150 && rec.GapSign != want || step == 499 && rec.GapSign != 0 {
			t.Errorf("step %d: mean sign of the gap %v", step, rec.GapSign)
		}
	}
	if r.result.Alarms != 2 || strings.Count(log.String(), "level=WARN") != 2 {
		t.Errorf("%d alarms, log:\n%s", r.result.Alarms, log.String())
	}
}

// A gap that stays large is an alarm while the chains lie where the data lie, and a collapse where they do not.
func TestCollapse(t *testing.T) {
	for name, c := range map[string]struct {
		rec  Record
		want bool
	}{
		"in place":          {Record{DataMean: -0.7, SampleMean: -0.6}, false},
		"mean":              {Record{DataMean: -0.7, SampleMean: 0}, true},
		"at bounds":         {Record{DataMean: -0.7, SampleMean: -0.7, DataAtBounds: 0.8, SamplesAtBounds: 0.5}, true},
		"more at bounds":    {Record{DataAtBounds: 0.1, SamplesAtBounds: 0.5}, true},
		"samples likelier":  {Record{DataMean: -0.7, SampleMean: 0, Terms: Terms{FSamples: 9}}, false},
		"gap within bounds": {Record{DataMean: -0.7, SampleMean: 0, Terms: Terms{FSamples: 2}}, false},
	} {
		var w watch
		g := Default().Guard
		for step := 1; step <= 400; step++ {
			rec := c.rec
			rec.Step, rec.FData = step, 4
			_, found := w.add(g, rec, 2)
			if got := found != nil; got != (c.want && step >= 200) {
				t.Fatalf("%s, step %d: collapse %t", name, step, got)
			}
			if found != nil && found.since != step-199 {
				t.Fatalf("%s, step %d: since step %d", name, step, found.since)
			}
		}
		g.OnCollapse = "warn"
		w = watch{}
		for step := range 400 {
			rec := c.rec
			rec.Step, rec.FData = step, 4
			if _, found := w.add(g, rec, 2); found != nil {
				t.Fatalf("%s: a collapse with on_collapse warn", name)
			}
		}
	}
}

func TestLearningRate(t *testing.T) {
	o := Optimizer{LR: 1, Warmup: 10, DecayAt: []float64{0.5, 0.75}, DecayRate: 0.1}
	for _, c := range []struct {
		schedule string
		step     int
		want     float64
	}{{"step", 0, 0.1}, {"step", 4, 0.5}, {"step", 9, 1}, {"step", 49, 1}, {"step", 50, 0.1}, {"step", 74, 0.1}, {"step", 75, 0.01}, {"step", 99, 0.01},
		{"constant", 9, 1}, {"constant", 99, 1}, {"cosine", 50, 0.55}, {"cosine", 100, 0.1}, {"cosine", 25, 0.1 + 0.9*(1+math.Sqrt2/2)/2},
		{"exponential", 50, math.Sqrt(0.1)}, {"exponential", 100, 0.1}} {
		o.Schedule = c.schedule
		if got := o.LearningRate(c.step, 100); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s, step %d: rate %v, want %v", c.schedule, c.step, got, c.want)
		}
	}
}

func TestOrderVisitsEveryRowOnceAnEpoch(t *testing.T) {
	rows := []int{3, 5, 8, 13, 21}
	o := newOrder(rows, keyed.New(1, "o"))
	var first []int
	for e := range 20 {
		var seen []int
		for i := range rows {
			seen = append(seen, o.at(e*len(rows)+i))
		}
		if e == 0 {
			first = slices.Clone(seen)
		} else if e == 19 && slices.Equal(first, seen) {
			t.Error("epochs 0 and 19 have the same order")
		}
		slices.Sort(seen)
		if !slices.Equal(seen, rows) {
			t.Fatalf("epoch %d visits %v", e, seen)
		}
	}
}

func TestLabelledRows(t *testing.T) {
	labels := []int32{0, 1, -1, 0, 0, 1, 2}
	if got := labelledRows(labels, 3, 2); !slices.Equal(got, []int{0, 1, 3, 5, 6}) {
		t.Errorf("at most 2 a class: rows %v", got)
	}
	if got := labelledRows(labels, 3, 0); !slices.Equal(got, []int{0, 1, 3, 4, 5, 6}) {
		t.Errorf("all labels: rows %v", got)
	}
}

func TestLint(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"":                    nil,
		"steps":               func(c *Config) { c.Epochs = 0 },
		"sampler.range":       func(c *Config) { c.Sampler.Range = []float64{1, -1} },
		"loss":                func(c *Config) { c.Loss = Loss{} },
		"sampler.buffer_size": func(c *Config) { c.Sampler.Conditional, c.Sampler.BufferSize = true, 11 },
		"labels_per_class":    func(c *Config) { c.PerClass, c.OneBatch = 5, true },
		"optimizer.nesterov":  func(c *Config) { c.Optimizer.Nesterov = true },
	} {
		c := Default()
		if change != nil {
			change(&c)
		}
		ps := c.Lint(10)
		if key == "" && len(ps) != 0 || key != "" && (len(ps) != 1 || ps[0].Key != key) {
			t.Errorf("%q: problems %v", key, ps)
		}
	}
}

// recorder is an engine that keeps the inputs of every batch.
type recorder struct {
	*linear
	batches [][]float32
}

func (r *recorder) Gradients(b Batch) ([]float32, error) {
	r.batches = append(r.batches, slices.Clone(b.X))
	return r.linear.Gradients(b)
}

// flat is a density without a slope: its chains are their start plus noise.
type flat struct{}

func (flat) Gradient(_ context.Context, _ []float32, _ []int32, logp []float64, grad []float32) error {
	clear(logp)
	clear(grad)
	return nil
}

// On rows that are all zero, with chains that start at zero, a batch is nothing but noise; and no noise may come twice,
// neither in two rows of a step nor in two steps.
func TestNoNoiseIsUsedTwice(t *testing.T) {
	c := toy(func(c *Config) {
		c.Steps, c.Loss.PXY, c.DataNoise, c.Optimizer.LR = 5, 0.5, 1, 1e-9
		c.Sampler.Range, c.Sampler.Restart = []float64{-1e-12, 1e-12}, 1
	})
	d := blobs(30)
	clear(d.X)
	c.Sampler.Steps, c.Sampler.NoiseStd, c.Sampler.Clamp = 2, 1, false
	engine := &recorder{linear: newLinear(2, 3)}
	deps := toyDeps(engine.linear, engine)
	deps.Densities = []langevin.Density{flat{}}
	if _, err := Run(context.Background(), c, d, 1, deps); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]float32]int{}
	rows := 0
	for _, x := range engine.batches {
		for r := 0; r < len(x); r += 2 {
			seen[[2]float32{x[r], x[r+1]}]++
			rows++
		}
	}
	if rows != 5*4*16 || len(seen) != rows {
		t.Errorf("%d different rows among %d, want all of 320 to differ", len(seen), rows)
	}
}

// The rows for p(x) and those for p(y|x) are drawn apart.
func TestTwoIndependentBatches(t *testing.T) {
	c := toy(func(c *Config) { c.Steps, c.DataNoise = 3, 0 })
	engine := &recorder{linear: newLinear(2, 3)}
	if _, err := Run(context.Background(), c, blobs(150), 1, toyDeps(engine.linear, engine)); err != nil {
		t.Fatal(err)
	}
	for step, x := range engine.batches {
		if slices.Equal(x[:32], x[32:64]) {
			t.Errorf("step %d: both batches have the same rows", step)
		}
	}
}

// Without a supervised term no label is needed, and none is asked for.
func TestDensityAloneNeedsNoLabels(t *testing.T) {
	c := toy(func(c *Config) { c.Steps, c.Objective = 5, "density" })
	d := blobs(60)
	for i := range d.Labels {
		d.Labels[i] = -1
	}
	d.ValidX, d.ValidLabels = nil, nil
	m := newLinear(2, 3)
	deps := toyDeps(m, m)
	res, err := Run(context.Background(), c, d, 1, deps)
	if err != nil || len(res.Records) != 5 || !math.IsNaN(res.Records[4].PYgivenX) || c.Rows() != 32 {
		t.Errorf("%v; %d records, %d rows a batch", err, len(res.Records), c.Rows())
	}
	if _, err := Run(context.Background(), toy(nil), d, 1, deps); err == nil || fault.KindOf(err) != fault.Data {
		t.Errorf("unlabelled rows with cross-entropy: error %v, want one of the data", err)
	}
}
