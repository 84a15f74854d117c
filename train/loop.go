package train

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/score"
)

// Data is the rows of a run in model space.
type Data struct {
	X       []float32 // [N, input shape]
	Labels  []int32   // [N]; below 0: unlabelled
	Dim     int       // elements of a row
	Classes int

	ValidX      []float32 // rows for validation; may be empty
	ValidLabels []int32
}

// Rows is the number of training rows.
func (d Data) Rows() int { return len(d.X) / d.Dim }

// Record is what a step tells. Fields that a step does not have are NaN.
type Record struct {
	Step         int // counted from 1
	Epoch        float64
	LearningRate float64
	Terms
	GradNorm      float64 // before clipping
	DataMean      float64 // mean element of the real rows of p(x)
	SampleMean    float64 // mean element of the chains after sampling
	Displacement  float64 // see langevin.Stats
	ValidAccuracy float64 // after this step, where it was evaluated
	ValidNLL      float64
}

// Gap is f(data) - f(samples): near 0 with changing sign while chains follow the model.
func (r Record) Gap() float64 { return r.FData - r.FSamples }

// Deps is what a run works with. Sampler may be nil for the classifier objective.
type Deps struct {
	Engine   Engine
	Updater  Updater                                                   // of the engine's parameters and gradients
	Sampler  *langevin.Sampler                                         // chains over the current weights
	Predict  func(ctx context.Context, x []float32) ([]float32, error) // logits [n,K] with the current weights
	Progress func(done, total int, r Record)                           // called after each step; may be nil
	Log      *slog.Logger
}

// Result is what a run leaves behind, apart from the parameters, which the engine updated in place.
type Result struct {
	Records []Record
	Buffer  *langevin.Buffer // nil for the classifier objective
	Alarms  int              // how often the gap alarm was raised
}

// run is the state of a training run.
type run struct {
	cfg    Config
	data   Data
	deps   Deps
	layout layout
	batch  Batch
	total  int

	orderX, orderY *order
	noise          keyed.Source
	draws          keyed.Source
	classDraws     keyed.Source
	buffer         *langevin.Buffer

	labels, classes, sampleClasses []int32
	slots                          []int
	highGap                        int
	result                         Result
}

// Run trains. It returns what was recorded so far together with an error.
func Run(ctx context.Context, cfg Config, data Data, seed uint64, deps Deps) (Result, error) {
	r, err := newRun(cfg, data, seed, deps)
	if err != nil {
		return Result{}, err
	}
	for step := range r.total {
		if err := ctx.Err(); err != nil {
			return r.result, err
		}
		rec, err := r.step(ctx, step)
		if err != nil {
			return r.result, fmt.Errorf("step %d of %d: %w", step+1, r.total, err)
		}
		r.result.Records = append(r.result.Records, rec)
		r.watchGap(rec)
		if deps.Progress != nil {
			deps.Progress(step+1, r.total, rec)
		}
	}
	return r.result, nil
}

func newRun(cfg Config, data Data, seed uint64, deps Deps) (*run, error) {
	l := cfg.layout()
	r := &run{cfg: cfg, data: data, deps: deps, layout: l, total: cfg.TotalSteps(data.Rows())}
	r.batch = Batch{X: make([]float32, l.rows*data.Dim), Alpha: make([]float32, l.rows), Beta: make([]float32, l.rows),
		Gamma: make([]float32, l.rows*data.Classes)}
	r.labels = make([]int32, l.labelled.n())
	r.classes = make([]int32, l.joint.n())
	r.slots = make([]int, cfg.BatchSize)
	r.noise = keyed.New(seed, "train data noise")
	r.draws = keyed.New(seed, "train buffer draws")
	r.classDraws = keyed.New(seed, "train chain classes")

	all := make([]int, data.Rows())
	for i := range all {
		all[i] = i
	}
	r.orderX = newOrder(all, keyed.New(seed, "train order p(x)"))
	labelled := labelledRows(data.Labels, data.Classes, cfg.PerClass)
	if cfg.OneBatch && cfg.generative() {
		labelled = all
	}
	r.orderY = newOrder(labelled, keyed.New(seed, "train order p(y|x)"))
	if cfg.Supervised() && known(data.Labels) == 0 {
		return nil, fault.New(fault.Data, "", "no training row has a label: the cross-entropy has nothing to learn from").
			Do("give labels, or set loss.p_y_given_x to 0 to train p(x) alone")
	}
	if !cfg.generative() {
		return r, nil
	}
	slices := 1
	if cfg.sliced() {
		slices = data.Classes
	}
	var err error
	r.buffer, err = langevin.NewBuffer(cfg.Sampler.BufferSize, data.Dim, slices, cfg.Sampler.Range[0], cfg.Sampler.Range[1],
		keyed.New(seed, "train buffer start"))
	r.result.Buffer = r.buffer
	return r, err
}

// labelledRows lists the rows with a label, at most perClass of each class (0: all), in file order.
func labelledRows(labels []int32, classes, perClass int) []int {
	seen := make([]int, classes)
	var rows []int
	for i, y := range labels {
		if y >= 0 && (perClass == 0 || seen[y] < perClass) {
			seen[y]++
			rows = append(rows, i)
		}
	}
	return rows
}

func (r *run) step(ctx context.Context, step int) (Record, error) {
	rec := Record{Step: step + 1, Epoch: float64(step+1) * float64(r.cfg.BatchSize) / float64(r.data.Rows()),
		LearningRate: r.cfg.Optimizer.LearningRate(step, r.total)}
	nan := math.NaN()
	rec.DataMean, rec.SampleMean, rec.Displacement, rec.ValidAccuracy, rec.ValidNLL = nan, nan, nan, nan, nan

	r.fill(step)
	if r.cfg.generative() {
		if err := r.sample(ctx, step, &rec); err != nil {
			return rec, err
		}
	}
	r.cfg.weigh(r.layout, r.batch, r.data.Classes, r.labels, r.classes)
	logits, err := r.deps.Engine.Gradients(r.batch)
	if err != nil {
		return rec, err
	}
	rec.Terms = r.cfg.terms(r.layout, logits, r.data.Classes, r.labels, r.classes)
	rec.GradNorm = gradientNorm(r.deps.Engine.Grads())
	if err := r.cfg.Guard.inspect(rec); err != nil {
		return rec, err
	}
	if c := r.cfg.Optimizer.ClipNorm; c > 0 && rec.GradNorm > c {
		scale(r.deps.Engine.Grads(), c/rec.GradNorm)
	}
	err = r.deps.Updater.Step(rec.LearningRate)
	forget(r.deps.Engine.Grads())
	if err != nil {
		return rec, err
	}
	if (step+1)%r.cfg.EvalEvery == 0 || step+1 == r.total {
		err = r.evaluate(ctx, &rec)
	}
	return rec, err
}

// fill copies the real rows of a step into the batch and adds the data noise.
func (r *run) fill(step int) {
	put := func(k rowRange, o *order, purpose uint64, labels []int32) {
		for i := range k.n() {
			row := o.at(step*k.n() + i)
			if labels != nil {
				labels[i] = r.data.Labels[row]
			}
			x := r.row(k.from + i)
			copy(x, r.data.X[row*r.data.Dim:(row+1)*r.data.Dim])
			r.addNoise(x, uint64(step)*uint64(r.layout.rows)+uint64(k.from+i), purpose)
		}
	}
	put(r.layout.data, r.orderX, 0, nil)
	if r.layout.labelled != r.layout.data {
		put(r.layout.labelled, r.orderY, 1, r.labels)
		return
	}
	for i := range r.labels {
		r.labels[i] = r.data.Labels[r.orderX.at(step*r.layout.data.n()+i)]
	}
}

func (r *run) row(i int) []float32 { return r.batch.X[i*r.data.Dim : (i+1)*r.data.Dim] }

func (r *run) addNoise(x []float32, index, purpose uint64) {
	if r.cfg.DataNoise == 0 {
		return
	}
	rng := r.noise.At(index, purpose)
	for j := range x {
		x[j] += float32(r.cfg.DataNoise * rng.NormFloat64())
	}
}

// sample advances the chains of a step and puts them into the batch and back into the buffer.
func (r *run) sample(ctx context.Context, step int, rec *Record) error {
	if r.cfg.Sampler.Conditional {
		r.sampleClasses = r.drawClasses(r.sampleClasses, r.layout.samples.n(), step)
	}
	st, err := r.chains(ctx, step, r.layout.samples, r.sampleClasses, 0)
	if err != nil {
		return err
	}
	rec.Displacement = st.Displacement
	rec.DataMean = mean(r.batch.X[r.layout.data.from*r.data.Dim : r.layout.data.to*r.data.Dim])
	rec.SampleMean = mean(r.batch.X[r.layout.samples.from*r.data.Dim : r.layout.samples.to*r.data.Dim])
	if r.layout.joint.n() == 0 {
		return nil
	}
	// The joint chains take the labels of the labelled rows, as the authors do. A chain without a label runs in some
	// class but takes no part in the loss.
	copy(r.classes, r.labels)
	classes := slices.Clone(r.classes)
	for i, y := range classes {
		classes[i] = max(y, 0)
	}
	_, err = r.chains(ctx, step, r.layout.joint, classes, 1)
	return err
}

func (r *run) drawClasses(into []int32, n, step int) []int32 {
	if len(into) != n {
		into = make([]int32, n)
	}
	rng := r.classDraws.At(uint64(step), 0)
	for i := range into {
		into[i] = int32(rng.IntN(r.data.Classes))
	}
	return into
}

// chains runs one set of chains from the buffer. set tells the sets of one step apart.
func (r *run) chains(ctx context.Context, step int, k rowRange, classes []int32, set uint64) (langevin.Stats, error) {
	x := r.batch.X[k.from*r.data.Dim : k.to*r.data.Dim]
	rng := r.draws.At(uint64(step), set)
	r.buffer.Draw(x, r.slots, classes, r.cfg.Sampler.Restart, rng.Rand)
	keys := make([]uint64, k.n())
	for i := range keys {
		keys[i] = uint64(step)*uint64(r.layout.rows) + uint64(k.from+i)
	}
	st, err := r.deps.Sampler.Run(ctx, langevin.Chains{X: x, Keys: keys, Classes: classes}, nil)
	if err != nil {
		return st, err
	}
	r.buffer.Put(r.slots, x)
	return st, nil
}

func mean(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}

const divergedRemedy = "lower optimizer.lr, raise loss.energy_l2, set sampler.grad_clip and sampler.clamp, or change the seed"

// inspect turns a diverged step into an error.
func (g Guard) inspect(r Record) error {
	switch {
	case r.NonFinite >= 0:
		return fmt.Errorf("training diverged: row %d of the batch has a non-finite logit; %s", r.NonFinite, divergedRemedy)
	case math.IsNaN(r.GradNorm) || math.IsInf(r.GradNorm, 0):
		return fmt.Errorf("training diverged: the norm of the parameter gradient is %v; %s", r.GradNorm, divergedRemedy)
	case g.MaxLoss > 0 && math.Abs(r.Loss) > g.MaxLoss:
		return fmt.Errorf("training diverged: the loss is %.4g, its limit (guard.max_loss) %g; %s", r.Loss, g.MaxLoss, divergedRemedy)
	case g.MaxLogit > 0 && r.MaxAbsF > g.MaxLogit:
		return fmt.Errorf("training diverged: a log density is %.4g, its limit (guard.max_log_density) %g; %s", r.MaxAbsF, g.MaxLogit, divergedRemedy)
	}
	return nil
}

// watchGap warns when chains have stopped to follow the model: the loss stays finite then and accuracy fine, but the
// density is no longer trained against its own samples.
func (r *run) watchGap(rec Record) {
	if !(rec.Gap() > r.cfg.Guard.GapAlarm) {
		r.highGap = 0
		return
	}
	r.highGap++
	if r.highGap == r.cfg.Guard.GapSteps {
		r.result.Alarms++
		r.deps.Log.Warn("the chains no longer follow the model: samples are much less likely than data",
			"step", rec.Step, "gap", rec.Gap(), "limit", r.cfg.Guard.GapAlarm, "for_steps", r.cfg.Guard.GapSteps,
			"remedy", "raise sampler.steps or sampler.step_size, or lower optimizer.lr")
	}
}

// evaluate adds accuracy and negative log-likelihood of the validation rows to a record.
func (r *run) evaluate(ctx context.Context, rec *Record) error {
	if len(r.data.ValidLabels) == 0 {
		return nil
	}
	logits, err := r.deps.Predict(ctx, r.data.ValidX)
	if err != nil {
		return fmt.Errorf("validation: %w", err)
	}
	n, right, nll := 0, 0, 0.0
	k := r.data.Classes
	for i, y := range r.data.ValidLabels {
		if y < 0 {
			continue
		}
		z := logits[i*k : (i+1)*k]
		n++
		nll += score.NLL(z, y)
		if pred, _ := score.Argmax(z); pred == int(y) {
			right++
		}
	}
	if math.IsNaN(nll) || math.IsInf(nll, 0) {
		return fmt.Errorf("training diverged: the negative log-likelihood of the validation rows is %v; %s", nll, divergedRemedy)
	}
	if n > 0 {
		rec.ValidAccuracy, rec.ValidNLL = float64(right)/float64(n), nll/float64(n)
	}
	return nil
}
