package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
)

// Data is the rows of a run in model space.
type Data struct {
	X       []float32 // [N, input shape]
	Labels  []int32   // [N]; below 0: unlabelled
	Dim     int       // elements of a row
	Shape   []int     // of a row, for what takes rows as pictures; nil: [Dim]
	Classes int

	ValidX      []float32 // rows for validation; may be empty
	ValidLabels []int32
}

// Rows is the number of training rows.
func (d Data) Rows() int { return len(d.X) / d.Dim }

// Deps is what a run works with.
type Deps struct {
	Params    model.Params // of the engine, whose memory they share; they end as the result
	Engine    Engine
	Updater   Updater                                                   // of the engine's parameters and gradients
	Densities []langevin.Density                                        // of the current weights, for chains side by side; none for the classifier objective
	Predict   func(ctx context.Context, x []float32) ([]float32, error) // logits [n,K] with the current weights
	// Checkpoints is a directory of this run alone: a run that finds checkpoints there goes on from the newest. Without
	// one the run cannot be continued, and the guard has nothing to go back to.
	Checkpoints string
	Progress    func(done, total int, r Record)                         // called after each step; may be nil
	Pictures    func(step int, chains []float32, classes []int32) error // sees the chains every Config.SamplesEvery steps; may be nil
	Log         *slog.Logger
}

// Result is what a run leaves behind, apart from the parameters.
type Result struct {
	Records []Record
	Events  []Event
	Buffer  *langevin.Buffer // nil without persistent chains
	Alarms  int              // how often the gap alarm was raised since the run began or was continued
	Best    *Selected        // the evaluation whose weights are the result, where Config.Select asks for one
	Resumed int              // steps done at the checkpoint that the run continued from
}

// Selected is an evaluation that was chosen by its metric.
type Selected struct {
	Step  int
	Value float64
}

// run is the state of a training run.
type run struct {
	cfg   Config
	data  Data
	deps  Deps
	seed  uint64
	total int
	width float64 // of the sampler's range
	edge  float64 // share of the training rows' elements at its bounds

	*feed
	state    facts
	records  []Record
	watch    watch
	average  model.Params // moving average of the weights; nil without
	best     model.Params // weights of state.Best; nil without
	spectral *spectral
	store    *checkpoints
	written  time.Time     // when the last checkpoint was
	saved    [2]int        // its step and attempt
	took     time.Duration // of the last step
	result   Result
}

// Run trains. It returns what was recorded so far together with an error. A cancelled run writes a checkpoint first.
func Run(ctx context.Context, cfg Config, data Data, seed uint64, deps Deps) (Result, error) {
	r, err := newRun(cfg, data, seed, deps)
	if err == nil {
		err = r.begin()
	}
	if err == nil {
		err = r.loop(ctx)
	}
	if err == nil {
		r.finish()
	}
	if r == nil {
		return Result{}, err
	}
	r.result.Records, r.result.Events = r.records, r.state.Events
	return r.result, err
}

func newRun(cfg Config, data Data, seed uint64, deps Deps) (*run, error) {
	if cfg.Supervised() && known(data.Labels) == 0 {
		return nil, fault.New(fault.Data, "", "no training row has a label: the cross-entropy has nothing to learn from").
			Do("give labels, or set objective: density to train p(x) alone")
	}
	r := &run{cfg: cfg, data: data, deps: deps, seed: seed, total: cfg.TotalSteps(data.Rows()), feed: newFeed(cfg, data)}
	r.state = facts{LRScale: 1, StepScale: 1}
	if deps.Checkpoints != "" {
		r.store = &checkpoints{dir: deps.Checkpoints, keep: cfg.Checkpoint.Keep}
	}
	if cfg.EMA > 0 {
		r.average = deps.Params.Clone()
	}
	if cfg.SpectralNorm {
		r.spectral = newSpectral(deps.Params, deps.Engine.Grads(), keyed.New(seed, "train spectral norm"))
	}
	if !cfg.Generative() {
		return r, nil
	}
	lo, hi := cfg.Sampler.Range[0], cfg.Sampler.Range[1]
	r.width, r.edge = hi-lo, langevin.AtBounds(data.X, lo, hi)
	var err error
	if r.buffer, err = newBuffer(cfg, data, seed); cfg.Sampler.Persistent {
		r.result.Buffer = r.buffer
	}
	return r, err
}

// begin continues from the newest checkpoint, or writes the first one.
func (r *run) begin() error {
	if r.store == nil {
		return r.attempt()
	}
	from, err := r.store.newest(func(err error) {
		r.deps.Log.Warn("a checkpoint cannot be used; taking the one before", "error", err)
	})
	if err != nil {
		return fmt.Errorf("checkpoints in %s: %w", r.store.dir, err)
	}
	if from == nil {
		if err := r.attempt(); err != nil {
			return err
		}
		return r.save(false)
	}
	if err := r.restore(*from); err != nil {
		return err
	}
	r.records, r.state.Events = from.records, from.Events
	for _, rec := range r.records {
		r.follow(rec)
	}
	r.result.Resumed, r.written, r.saved = r.state.Step, time.Now(), [2]int{r.state.Step, r.state.Attempt}
	r.deps.Log.Info("continuing from a checkpoint", "step", r.state.Step, "of", r.total, "rollbacks", r.state.Attempt)
	return nil
}

// follow brings the watch to the state it had after a record.
func (r *run) follow(rec Record) {
	if rec.Event != "" {
		r.watch = watch{}
		return
	}
	r.watch.add(r.cfg.Guard, rec, r.width)
}

// attempt sets the random streams and the sampler of the current attempt.
func (r *run) attempt() (err error) {
	seed := r.seed
	if r.state.Attempt > 0 {
		seed = keyed.New(r.seed, "train attempt").Seed(uint64(r.state.Attempt))
	}
	r.feed.seed(seed)
	if !r.cfg.Generative() {
		return nil
	}
	rule := r.cfg.Sampler.Rule
	rule.StepSize *= r.state.StepScale
	r.sampler, err = langevin.NewSampler(rule, r.data.Dim, keyed.New(seed, "train sgld"), r.deps.Densities...)
	return err
}

func (r *run) loop(ctx context.Context) error {
	for r.state.Step < r.total {
		if err := ctx.Err(); err != nil {
			if r.store == nil || r.saved == [2]int{r.state.Step, r.state.Attempt} {
				return err
			}
			return errors.Join(err, r.save(true))
		}
		if err := r.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance takes a step and looks at what came of it.
func (r *run) advance(ctx context.Context) error {
	const short = 2 * time.Second // a step that takes less is finished before a cancelled run stops
	if r.took < short {
		ctx = context.WithoutCancel(ctx)
	}
	started := time.Now()
	rec, err := r.step(ctx)
	r.took = time.Since(started)
	var found *trouble
	if err != nil && !errors.As(err, &found) {
		return fmt.Errorf("step %d of %d: %w", rec.Step, r.total, err)
	}
	if found == nil {
		found = r.look(&rec)
	}
	if found != nil {
		return r.answer(found, rec)
	}
	r.records = append(r.records, rec)
	r.state.Step++
	if err := r.tell(rec); err != nil {
		return err
	}
	c := r.cfg.Checkpoint
	switch {
	case r.store == nil || r.state.Step == r.total:
		return nil
	case r.state.Step%c.Every == 0:
		return r.save(false)
	case c.Minutes > 0 && time.Since(r.written).Minutes() > c.Minutes:
		return r.save(true)
	}
	return nil
}

// look gives a step to the watch over the gap.
func (r *run) look(rec *Record) *trouble {
	alarm, found := r.watch.add(r.cfg.Guard, *rec, r.width)
	rec.GapSign = r.watch.sign()
	if alarm {
		r.result.Alarms++
		r.deps.Log.Warn("the chains no longer follow the model: samples are much less likely than data",
			"step", rec.Step, "gap", rec.Gap(), "limit", r.cfg.Guard.GapAlarm, "for_steps", r.cfg.Guard.GapSteps, "remedy", r.cfg.advice(collapse))
	}
	return found
}

// answer deals with trouble: back to a checkpoint from before it, or an error.
func (r *run) answer(found *trouble, rec Record) error {
	step, since := rec.Step, found.since
	if since == 0 {
		since = step
	}
	action := r.cfg.Guard.OnDivergence
	if found.kind == collapse {
		action = r.cfg.Guard.OnCollapse
	}
	event := Event{Step: step, Attempt: r.state.Attempt, Kind: found.kind, What: found.what, To: -1}
	var back *saved
	if action == "rollback" && r.store != nil && r.state.Attempt < r.cfg.Guard.MaxRollbacks {
		var err error
		if back, err = r.store.before(since); err != nil {
			return fmt.Errorf("step %d of %d: %s, and no way back: %w", step, r.total, found, err)
		}
	}
	if back != nil {
		event.To = back.Step
	}
	rec.Event = event.String()
	r.records = append(r.records, rec)
	r.state.Events = append(r.state.Events, event)
	if back == nil {
		return fmt.Errorf("step %d of %d: training has gone wrong (%s) after %d rollbacks; %s",
			step, r.total, found, r.state.Attempt, r.cfg.advice(found.kind))
	}
	return r.rollback(*back, event)
}

// String is what stands in the table.
func (e Event) String() string {
	if e.To < 0 {
		return e.Kind + ": " + e.What
	}
	return fmt.Sprintf("%s: %s; back to step %d", e.Kind, e.What, e.To)
}

// rollback goes on from an earlier checkpoint with other random streams and smaller steps.
func (r *run) rollback(to saved, event Event) error {
	attempt, lr, size, events := r.state.Attempt+1, r.state.LRScale, r.state.StepScale, r.state.Events
	if err := r.restore(to); err != nil {
		return err
	}
	r.state.Attempt, r.state.LRScale, r.state.StepScale, r.state.Events = attempt, lr*r.cfg.Guard.LRFactor, size, events
	if event.Kind == divergence {
		r.state.StepScale *= r.cfg.Guard.StepFactor
	}
	r.state.Returned, r.state.Between = true, false
	r.watch = watch{}
	if err := r.attempt(); err != nil {
		return err
	}
	r.deps.Log.Warn("training has gone wrong; going back", "kind", event.Kind, "found", event.What, "step", event.Step, "back_to", r.state.Step,
		"rollback", attempt, "of", r.cfg.Guard.MaxRollbacks, "lr_scale", r.state.LRScale, "sampler_step_scale", r.state.StepScale)
	return r.save(false)
}

// tell reports a step.
func (r *run) tell(rec Record) error {
	if r.deps.Progress != nil {
		r.deps.Progress(rec.Step, r.total, rec)
	}
	if n := r.cfg.LogEvery; n > 0 && rec.Step%n == 0 {
		r.deps.Log.Info("training", rec.health()...)
	}
	if n := r.cfg.SamplesEvery; n > 0 && rec.Step%n == 0 && r.deps.Pictures != nil && r.cfg.Generative() {
		classes := r.sampleClasses
		if r.layout.samples.n() == 0 {
			classes = r.classes
		}
		return r.deps.Pictures(rec.Step, r.rows(r.layout.negative()), classes)
	}
	return nil
}

// health lists the figures of a log line.
func (r Record) health() (out []any) {
	out = []any{"step", r.Step}
	for _, f := range []struct {
		key string
		v   float64
	}{{"loss", r.Loss}, {"f_data", r.FData}, {"f_samples", r.FSamples}, {"gap", r.Gap()}, {"gap_sign", r.GapSign}, {"grad_norm", r.GradNorm},
		{"accuracy", r.Accuracy}, {"valid_accuracy", r.ValidAccuracy}, {"sample_mean", r.SampleMean}, {"data_mean", r.DataMean},
		{"samples_at_bounds", r.SamplesAtBounds}, {"data_at_bounds", r.DataAtBounds}, {"displacement", r.Displacement}, {"energy_drop", r.EnergyDrop}, {"acceptance", r.Acceptance}, {"restarts", r.Restarts}, {"lr", r.LearningRate}} {
		if !math.IsNaN(f.v) {
			out = append(out, f.key, brief(f.v))
		}
	}
	return out
}

// brief rounds to four digits.
func brief(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil { // infinite
		return v
	}
	return short
}

// finish leaves the selected weights in the parameters.
func (r *run) finish() {
	from := r.average
	if r.best != nil {
		from = r.best
		r.result.Best = &Selected{r.state.Best.Step, r.state.Best.Value}
	}
	if from != nil {
		fill(r.deps.Params, from, "")
	}
}
