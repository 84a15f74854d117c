package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
)

// heavyBall is gradient descent with momentum: an updater with a state.
type heavyBall struct {
	descent
	u     model.Params
	steps int
}

func newHeavyBall(m *linear) *heavyBall {
	u := m.w.Clone()
	forget(u)
	return &heavyBall{descent: descent{m.w, m.g}, u: u}
}

func (h *heavyBall) Step(lr float64) error {
	h.steps++
	for i, g := range h.g {
		for j, v := range g.Data {
			h.u[i].Data[j] = 0.5*h.u[i].Data[j] - float32(lr*float64(v))
			h.w[i].Data[j] += h.u[i].Data[j]
		}
	}
	return nil
}

func (h *heavyBall) State() (model.Params, int) { return h.u.Clone(), h.steps }

func (h *heavyBall) SetState(ps model.Params, steps int) error {
	h.steps = steps
	if steps > 0 && !fill(h.u, ps, "") {
		return errors.New("no velocity")
	}
	return nil
}

// outcome is everything that a run leaves.
type outcome struct {
	weights []float32
	buffer  []float32
	records string
	events  string
}

// everything is a configuration whose run keeps every kind of state.
func everything(c *Config) {
	c.Steps, c.EMA, c.SpectralNorm, c.Select, c.EvalEvery = 24, 0.9, true, "best_nll", 3
	c.Accumulate, c.Loss.PXY, c.Checkpoint.Every, c.Checkpoint.Keep = 2, 0.2, 5, 2
	c.Sampler.BufferSize = 60
	c.Guard.GapSteps = 4
}

// stopping is an engine that is killed: its call number at fails for good, or cancels its context.
type stopping struct {
	*linear
	at     int
	cancel context.CancelFunc
}

var errKilled = errors.New("killed")

func (s *stopping) Gradients(b Batch) ([]float32, error) {
	s.at--
	if s.at == 0 && s.cancel == nil {
		return nil, errKilled
	}
	if s.at == 0 {
		s.cancel()
	}
	return s.linear.Gradients(b)
}

// resumable runs in a directory of checkpoints and gives what came out. kill is the call of the engine that does not
// come back; 0: none.
func resumable(t *testing.T, c Config, dir string, kill int, spoil func(*linear) Engine) (outcome, error) {
	t.Helper()
	m := newLinear(2, 3)
	engine := Engine(m)
	if spoil != nil {
		engine = spoil(m)
	}
	if kill > 0 {
		engine = &stopping{linear: m, at: kill}
	}
	deps := toyDeps(m, engine)
	deps.Updater, deps.Checkpoints = newHeavyBall(m), dir
	res, err := Run(context.Background(), c, blobs(150), 1, deps)
	o := outcome{weights: m.w[0].Data, records: fmt.Sprintf("%+v", res.Records), events: listEvents(res.Events)}
	if res.Buffer != nil {
		o.buffer = res.Buffer.X
	}
	return o, err
}

func listEvents(events []Event) string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("step %d of attempt %d: %s", e.Step, e.Attempt, e))
	}
	return strings.Join(out, "\n")
}

func (o outcome) equal(t *testing.T, want outcome) {
	t.Helper()
	if !slices.Equal(o.weights, want.weights) || !slices.Equal(o.buffer, want.buffer) {
		t.Error("other weights or chains")
	}
	if o.records != want.records || o.events != want.events {
		t.Errorf("other records or events:\n%s\n%s", o.events, want.events)
	}
}

// A run that is killed in any step, and again while it makes up for it, ends in the same bits.
func TestKilledRunContinuesToTheBit(t *testing.T) {
	c := toy(everything)
	want, err := resumable(t, c, "", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for kill := 1; kill <= 2*c.Steps; kill += 3 {
		dir := t.TempDir()
		for _, at := range []int{kill, 3} {
			if _, err := resumable(t, c, dir, at, nil); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		got, err := resumable(t, c, dir, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		got.equal(t, want)
		if t.Failed() {
			t.Fatalf("killed in call %d", kill)
		}
	}
}

// A cancelled run writes where it stands and goes on from there.
func TestCancelledRunKeepsItsSteps(t *testing.T) {
	c := toy(everything)
	want, err := resumable(t, c, "", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	m := newLinear(2, 3)
	deps := toyDeps(m, &stopping{linear: m, at: 2 * 13, cancel: cancel})
	deps.Updater, deps.Checkpoints = newHeavyBall(m), dir
	if _, err := Run(ctx, c, blobs(150), 1, deps); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want cancelled", err)
	}
	m = newLinear(2, 3)
	deps = toyDeps(m, m)
	deps.Updater, deps.Checkpoints = newHeavyBall(m), dir
	res, err := Run(context.Background(), c, blobs(150), 1, deps)
	if err != nil || res.Resumed != 13 {
		t.Errorf("continued from step %d, error %v; want step 13", res.Resumed, err)
	}
	outcome{m.w[0].Data, res.Buffer.X, fmt.Sprintf("%+v", res.Records), listEvents(res.Events)}.equal(t, want)
}

func TestDamagedCheckpointIsPassedOver(t *testing.T) {
	c := toy(everything)
	want, err := resumable(t, c, "", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{checkpointWeights, checkpointState, checkpointHistory, checkpointFacts} {
		dir := t.TempDir()
		if _, err := resumable(t, c, dir, 2*22, nil); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "step-00000020-attempt-0", file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 0xff
		if file == checkpointFacts {
			data = data[:len(data)/2]
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := resumable(t, c, dir, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		got.equal(t, want)
	}
}

// spoiled is an engine whose logits are NaN in some calls, counted over the life of the run's data.
type spoiled struct {
	*linear
	when func(b Batch) bool
}

func (s *spoiled) Gradients(b Batch) ([]float32, error) {
	z, err := s.linear.Gradients(b)
	if s.when(b) {
		z[0] = float32(math.NaN())
	}
	return z, err
}

// Trouble that comes back with the same data stream, and goes away with another, is met by one rollback. A kill
// anywhere near it changes nothing.
func TestRollback(t *testing.T) {
	c := toy(everything)
	c.Guard.OnDivergence = "rollback"
	batches := map[string]int{}
	number := 0
	mark := func(m *linear) Engine {
		return &spoiled{m, func(b Batch) bool {
			number++
			key := fmt.Sprint(b.X[:8])
			if batches[key] == 0 {
				batches[key] = number
			}
			return false
		}}
	}
	if _, err := resumable(t, c, "", 0, mark); err != nil {
		t.Fatal(err)
	}
	bad := func(m *linear) Engine { // the first real row of call 34, step 17, of attempt 0
		return &spoiled{m, func(b Batch) bool { return batches[fmt.Sprint(b.X[:8])] == 34 }}
	}
	want, err := resumable(t, c, t.TempDir(), 0, bad)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(want.events, "step 17 of attempt 0: divergence: row 0 of the batch has a non-finite logit; back to step 15") {
		t.Errorf("events %s", want.events)
	}
	if n := strings.Count(want.records, "Attempt:1"); n != 9 {
		t.Errorf("%d records of the second attempt, want those of steps 16 to 24", n)
	}
	for kill := 1; kill < 52; kill += 3 {
		dir := t.TempDir()
		killed := func(m *linear) Engine {
			s := bad(m).(*spoiled)
			calls, when := 0, s.when
			s.when = func(b Batch) bool {
				if calls++; calls == kill {
					panic(errKilled)
				}
				return when(b)
			}
			return s
		}
		func() {
			defer func() { recover() }()
			resumable(t, c, dir, 0, killed)
		}()
		got, err := resumable(t, c, dir, 0, bad)
		if err != nil {
			t.Fatal(err)
		}
		got.equal(t, want)
		if t.Failed() {
			t.Fatalf("killed in call %d", kill)
		}
	}
}

// Trouble that does not go away ends in an error that tells how often it was tried and what to turn; each rollback goes
// further back.
func TestRollbacksEnd(t *testing.T) {
	c := toy(everything)
	c.Guard.OnDivergence = "rollback"
	c.Optimizer.ClipNorm = 0
	always := func(m *linear) Engine {
		calls := 0
		return &spoiled{m, func(Batch) bool { calls++; return calls >= 2*13 }}
	}
	dir := t.TempDir()
	o, err := resumable(t, c, dir, 0, always)
	if err == nil || !strings.Contains(err.Error(), "after 3 rollbacks") || !strings.Contains(err.Error(), "optimizer.clip_norm") {
		t.Errorf("error %v", err)
	}
	var back []string
	for _, e := range strings.Split(o.events, "\n") {
		back = append(back, e[strings.LastIndex(e, " ")+1:])
	}
	if got := strings.Join(back, " "); got != "10 5 5 logit" {
		t.Errorf("rolled back to steps %s; events\n%s", got, o.events)
	}
}

// With spectral normalisation the network's matrices have norm 1, and the gradient with respect to the raw matrix is
// that of the normalised one (central differences).
func TestSpectralNorm(t *testing.T) {
	rng := keyed.New(3, "spectral").At(0, 0)
	w := model.Params{{Name: "w", Shape: []int{5, 2, 2}, Data: make([]float32, 20)}, {Name: "b", Shape: []int{5}, Data: make([]float32, 5)}}
	for i := range w[0].Data {
		w[0].Data[i] = float32(rng.NormFloat64())
	}
	raw := slices.Clone(w[0].Data)
	g := w.Clone()
	s := newSpectral(w, g, keyed.New(1, "u"))
	if len(s.raw) != 1 || !slices.Equal(s.raw[0].Data, raw) {
		t.Fatal("the matrix alone is normalised, and its raw values are kept")
	}
	sigma := largestSingularValue(raw, 5, 4)
	if math.Abs(float64(s.sigma[0])/sigma-1) > 1e-5 {
		t.Errorf("sigma %v, want %v", s.sigma[0], sigma)
	}
	// A linear loss <c, W/sigma>.
	c := make([]float64, 20)
	for i := range c {
		c[i] = rng.NormFloat64()
		g[0].Data[i] = float32(c[i])
	}
	s.backward(g)
	loss := func(raw []float32) (sum float64) {
		sigma := largestSingularValue(raw, 5, 4)
		for i, v := range raw {
			sum += c[i] * float64(v) / sigma
		}
		return sum
	}
	for i := range raw {
		const h = 1e-2
		up, down := slices.Clone(raw), slices.Clone(raw)
		up[i] += h
		down[i] -= h
		want := (loss(up) - loss(down)) / float64(up[i]-down[i])
		if math.Abs(float64(g[0].Data[i])-want) > 2e-3 {
			t.Errorf("gradient %d is %v, want %v", i, g[0].Data[i], want)
		}
	}
}

// largestSingularValue is found by many power iterations in float64 from a fixed start.
func largestSingularValue(w []float32, rows, cols int) float64 {
	v := make([]float64, cols)
	for i := range v {
		v[i] = 1 / float64(i+1)
	}
	var sigma float64
	for range 500 {
		u := make([]float64, rows)
		for r := range rows {
			for c := range cols {
				u[r] += float64(w[r*cols+c]) * v[c]
			}
		}
		next := make([]float64, cols)
		var sq float64
		for c := range cols {
			for r := range rows {
				next[c] += float64(w[r*cols+c]) * u[r]
			}
			sq += next[c] * next[c]
		}
		norm := math.Sqrt(sq)
		for c := range next {
			v[c] = next[c] / norm
		}
		sigma = math.Sqrt(norm)
	}
	return sigma
}

// The mean gradient of two accumulated batches is the gradient of both at once: a step over 2 x 16 rows without chains
// is a step over 32.
func TestAccumulation(t *testing.T) {
	run := func(change func(*Config)) []float32 {
		m := newLinear(2, 3)
		c := toy(func(c *Config) { c.Objective, c.DataNoise, c.Steps = "classifier", 0, 20; change(c) })
		if _, err := runToy(t, c, m); err != nil {
			t.Fatal(err)
		}
		return m.w[0].Data
	}
	a := run(func(c *Config) { c.BatchSize = 32 })
	b := run(func(c *Config) { c.BatchSize, c.Accumulate = 16, 2 })
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-5 {
			t.Fatalf("weight %d is %v with batches of 32 and %v with two of 16", i, a[i], b[i])
		}
	}
}

// The best evaluation's weights are the result, not the last ones.
func TestSelectBest(t *testing.T) {
	m := newLinear(2, 3)
	c := toy(func(c *Config) {
		c.Objective, c.Select, c.Steps, c.EvalEvery = "classifier", "best_nll", 40, 10
		c.Optimizer.LR, c.Optimizer.Schedule, c.Optimizer.ClipNorm = 9, "constant", 0
	})
	res, err := runToy(t, c, m)
	if err != nil {
		t.Fatal(err)
	}
	want := math.Inf(1)
	for _, r := range res.Records {
		if r.ValidNLL < want {
			want = r.ValidNLL
		}
	}
	if res.Best == nil || res.Best.Value != want {
		t.Fatalf("best %+v, want %v", res.Best, want)
	}
	d := blobs(150)
	var nll float64
	z := m.logits(d.ValidX)
	for i, y := range d.ValidLabels {
		p := softmax(z[3*i : 3*i+3])
		nll -= math.Log(p[y]) / float64(len(d.ValidLabels))
	}
	if math.Abs(nll-want) > 1e-6 {
		t.Errorf("the result has a validation NLL of %v, the best evaluation %v", nll, want)
	}
}

func TestDeadModelIsNoSuccess(t *testing.T) {
	c := toy(func(c *Config) { c.Objective, c.Steps, c.Optimizer.LR, c.Optimizer.Warmup = "classifier", 500, 1e-9, 0 })
	res, err := runToy(t, c, newLinear(2, 3))
	if n := len(res.Records); err == nil || !strings.Contains(err.Error(), "every validation row into class") || n != 500 || res.Records[n-1].Event == "" {
		t.Errorf("error %v; %d records, want 500, the last one with an event", err, n)
	}
	c.Steps = 499
	if _, err := runToy(t, c, newLinear(2, 3)); err != nil {
		t.Errorf("a run too short to judge: %v", err)
	}
}

// A sampler that meets no finite density is divergence like any other.
func TestBrokenDensityIsDivergence(t *testing.T) {
	c := toy(everything)
	c.Guard.OnDivergence = "rollback"
	m := newLinear(2, 3)
	deps := toyDeps(m, m)
	deps.Updater, deps.Checkpoints, deps.Densities = newHeavyBall(m), t.TempDir(), []langevin.Density{&brittle{linear: m, good: 60}}
	res, err := Run(context.Background(), c, blobs(150), 1, deps)
	if err == nil || len(res.Events) != 4 || !strings.Contains(res.Events[0].What, "log density") {
		t.Errorf("error %v, events %v", err, res.Events)
	}
}

// brittle is a density that is NaN from a call on.
type brittle struct {
	*linear
	good int
}

func (b *brittle) Gradient(ctx context.Context, x []float32, classes []int32, logp []float64, grad []float32) error {
	err := b.linear.Gradient(ctx, x, classes, logp, grad)
	if b.good--; b.good < 0 {
		logp[0] = math.NaN()
	}
	return err
}

func TestPicturesSeeTheChains(t *testing.T) {
	m := newLinear(2, 3)
	deps := toyDeps(m, m)
	var steps []int
	deps.Pictures = func(step int, chains []float32, classes []int32) error {
		steps = append(steps, step)
		if len(chains) != 32 || classes != nil {
			t.Errorf("%d values and classes %v", len(chains), classes)
		}
		return nil
	}
	c := toy(func(c *Config) { c.SamplesEvery = 25 })
	if _, err := Run(context.Background(), c, blobs(150), 1, deps); err != nil || !slices.Equal(steps, []int{25, 50}) {
		t.Errorf("pictures at steps %v, error %v", steps, err)
	}
	var names bytes.Buffer
	for _, v := range (Record{Step: 3, Terms: Terms{Loss: math.NaN(), Accuracy: 0.5}}).health() {
		fmt.Fprint(&names, v, " ")
	}
	if s := names.String(); strings.Contains(s, "loss") || !strings.Contains(s, "accuracy 0.5") {
		t.Errorf("log line %q", s)
	}
}
