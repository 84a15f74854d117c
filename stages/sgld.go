package stages

import (
	"context"
	"math"
	"path/filepath"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/score"
)

// SGLDKind draws samples from a trained model.
func SGLDKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "sgld", Version: 3,
		Summary: "Draws samples from the model's density by Langevin dynamics and writes tables/samples.parquet, a row for each chain and kept step. Keys of the update rule that are absent, steps apart, are as in training; for a model of others, as the defaults of a train stage, with the range of raw values.",
		New: func() pipeline.Stage {
			return &SGLD{Start: "buffer", Chains: 64, KeepEvery: 20, Shards: 2, Changes: langevin.Changes{Steps: new(100)}}
		},
	}
}

// SGLD is the configuration of an sgld stage.
type SGLD struct {
	Model     pipeline.StageRef `yaml:"model" required:"true" default:"export" kinds:"export|train" doc:"Stage whose model is sampled."`
	Start     string            `yaml:"start" enum:"buffer|noise|data" default:"buffer" doc:"Where chains start: in the replay buffer of training, in uniform noise, or in rows of a data set."`
	Buffer    pipeline.StageRef `yaml:"buffer" default:"train" kinds:"train" doc:"Stage whose replay buffer start: buffer reads."`
	Data      pipeline.DataRef  `yaml:"data" doc:"Data set whose first rows start: data begins from."`
	Classes   []int             `yaml:"classes" min:"0" doc:"Sample p(x|y): chains take these classes in turn, and follow the gradient of log p(x,y). Absent: unconditional."`
	Chains    int               `yaml:"chains" min:"1" max:"100000" default:"64" doc:"Number of chains."`
	KeepEvery int               `yaml:"keep_every" min:"1" default:"20" doc:"A chain's state is written at its start, every so many steps and at its end."`
	Shards    int               `yaml:"shards" min:"1" max:"64" default:"2" doc:"Parts of the chains that run side by side."`
	langevin.Changes
}

// Lint implements pipeline.Stage.
func (s *SGLD) Lint(lc *pipeline.LintContext) {
	if s.Start == "buffer" && s.Buffer == "" {
		lc.Problem("buffer", "start: buffer needs the train stage whose replay buffer is read; or use start: noise")
	}
	if s.Start == "buffer" {
		if _, ok := linted(lc)(trainedBy(linted(lc), s.Model)).(*Model); ok {
			lc.Problem("start", "the model of stage %s was trained by others and has no replay buffer: use start: noise or start: data", s.Model)
		}
		if t, ok := linted(lc)(s.Buffer).(*Train); ok && !t.Generative() {
			lc.Problem("buffer", "stage %s trains a classifier, which leaves no replay buffer: use start: noise or start: data", s.Buffer)
		} else if ok && !t.Sampler.Persistent {
			lc.Problem("buffer", "stage %s has sampler.persistent: false, which leaves no replay buffer: use start: noise or start: data", s.Buffer)
		}
		checkSameModel(lc, s.Model, "buffer", s.Buffer)
	}
	if s.Start == "data" && s.Data == "" {
		lc.Problem("data", "start: data needs a data set")
	}
	for _, p := range s.rule(linted(lc)).Lint() {
		lc.Problem(p.Key, "%s", p.Message)
	}
}

// CheckData implements pipeline.DataChecker.
func (s *SGLD) CheckData(dc *pipeline.DataContext) (errs []error) {
	where := "stages." + dc.Name()
	if trained, ok := trainingData(dc, s.Model); ok {
		for _, y := range s.Classes {
			if y >= len(trained.Classes) {
				errs = append(errs, fault.New(fault.Config, where+".classes", "class %d, the model has classes 0 to %d", y, len(trained.Classes)-1))
			}
		}
	}
	if info, ok := dc.Data(s.Data); ok && s.Start == "data" && info.Rows < int64(s.Chains) {
		errs = append(errs, fault.New(fault.Config, where+".chains", "%d chains, data.%s has %d rows to start from", s.Chains, info.Name, info.Rows))
	}
	return errs
}

// Run implements pipeline.Stage.
func (s *SGLD) Run(ctx context.Context, rc *pipeline.RunContext) error {
	b, f, err := s.load(rc)
	if err != nil {
		return err
	}
	chains, err := s.start(ctx, rc, b)
	if err != nil {
		return err
	}
	meta := tableMeta(rc, b.hash(), b.Classes)
	meta.SampleShape = b.Preprocess.SampleShape
	lo, hi := b.rawRange()
	meta.Extra = map[string]string{rangeKey: mustJSON([]float64{lo, hi})}
	path := rc.Dir.Path("tables", "samples.parquet")
	w, err := outputs.Create[outputs.Sample](path, meta.Map())
	if err != nil {
		return err
	}
	err = s.sample(ctx, rc, b, f, chains, w.Write)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	rc.Rows(path, w.Rows())
	return err
}

// load reads the model; foreign is nil where it is our own.
func (s *SGLD) load(rc *pipeline.RunContext) (bundle, *foreign, error) {
	if _, ok := rc.StageConfig(trainedBy(rc.StageConfig, s.Model)).(*Model); !ok {
		b, err := loadBundle(rc.StageDir(s.Model))
		return b, nil, err
	}
	f, err := loadForeign(rc.StageDir(s.Model))
	if err != nil {
		return bundle{}, nil, err
	}
	if f.EnergyReason != "" {
		return bundle{}, nil, fault.New(fault.Config, "stages."+rc.Name, "the model has no density to sample from: %s", f.EnergyReason).
			Do("leave the stage out, or name an output of the model that holds logits")
	}
	b, err := f.bundle()
	return b, f, err
}

// start puts the chains where they begin, in model space.
func (s *SGLD) start(ctx context.Context, rc *pipeline.RunContext, b bundle) (langevin.Chains, error) {
	c := langevin.Chains{X: make([]float32, s.Chains*b.Arch.Size()), Keys: make([]uint64, s.Chains)}
	for i := range c.Keys {
		c.Keys[i] = uint64(i)
		if len(s.Classes) > 0 {
			c.Classes = append(c.Classes, int32(s.Classes[i%len(s.Classes)]))
		}
	}
	rng := keyed.New(stageSeed(rc), "sgld start")
	switch s.Start {
	case "noise":
		rule := s.Changes.On(b.Sampler.Rule)
		noise, err := langevin.NewBuffer(langevin.BufferConfig{Size: s.Chains, Shape: b.Arch.Input,
			Start: langevin.Uniform{Lo: rule.Range[0], Hi: rule.Range[1]}}, rng)
		if err != nil {
			return c, err
		}
		copy(c.X, noise.X)
	case "data":
		rows, err := firstRows(ctx, rc, s.Data, s.Chains)
		if err != nil {
			return c, err
		}
		if rows.Len() < s.Chains || len(rows.X) != rows.Len()*b.Arch.Size() {
			return c, fault.New(fault.Data, "data."+string(s.Data), "%d rows with %d values in all, want %d rows of %d values", rows.Len(), len(rows.X), s.Chains, b.Arch.Size()).
				Do("take fewer chains or another data set")
		}
		sp, err := newSpace(b.Preprocess, b.Arch.Input)
		if err != nil {
			return c, err
		}
		copy(c.X, sp.model(rows.X))
	default:
		return c, s.fromBuffer(rc, b, c, rng)
	}
	return c, nil
}

// fromBuffer draws the chains from the replay buffer, each from the slice of its class where the buffer has slices. No
// slot is drawn twice before all have been.
func (s *SGLD) fromBuffer(rc *pipeline.RunContext, b bundle, c langevin.Chains, rng keyed.Source) error {
	path := filepath.Join(rc.StageDir(s.Buffer), "models", bufferFile)
	buf, err := loadBuffer(path, b.hash())
	if err != nil {
		return err
	}
	slice, classes := buf.Size/buf.Classes, c.Classes
	if buf.Classes != len(b.Classes) {
		slice, classes = buf.Size, nil
	}
	drawn := map[int32][]int{} // by class: a permutation of its slots, of which as many are used up as chains were drawn
	for i := range c.Keys {
		class := int32(0)
		if classes != nil {
			class = classes[i]
		}
		if len(drawn[class]) == 0 {
			drawn[class] = rng.At(uint64(class), uint64(i)).Perm(slice)
		}
		slot := int(class)*slice + drawn[class][0]
		drawn[class] = drawn[class][1:]
		copy(c.X[i*buf.Dim:(i+1)*buf.Dim], buf.X[slot*buf.Dim:])
	}
	return nil
}

// sample runs the chains, scores the kept states and hands them to write, step by step.
func (s *SGLD) sample(ctx context.Context, rc *pipeline.RunContext, b bundle, f *foreign, chains langevin.Chains, write func([]outputs.Sample) error) error {
	rt, err := rc.Runtime()
	if err != nil {
		return err
	}
	rule := s.Changes.On(b.Sampler.Rule)
	rule.StepsPerCall = stepsPerCall(rt, rule, f == nil || f.walkable())
	needs := liveOptions{densities: s.Shards, conditional: len(s.Classes) > 0, frozen: true, rule: rule}
	var live *liveModel
	if f != nil {
		live, err = newForeignModel(rt, f, b, needs)
	} else {
		live, err = newLiveModel(rt, b, needs)
	}
	if err != nil {
		return err
	}
	defer live.Close()
	predict, err := live.predictor(rt)
	if err != nil {
		return err
	}
	sampler, err := langevin.NewSampler(rule, b.Arch.Size(), keyed.New(stageSeed(rc), "sgld noise"), live.densities...)
	if err != nil {
		return err
	}
	if rule.StepsPerCall > 1 {
		sampler.VisitEvery = s.KeepEvery
	}
	sp, err := newSpace(b.Preprocess, b.Arch.Input)
	if err != nil {
		return err
	}
	st, err := sampler.Run(ctx, chains, func(step int, x []float32, _ []float64) error {
		rc.Progress(int64(step), int64(rule.Steps), "%d chains", len(chains.Keys))
		if step%s.KeepEvery != 0 && step != rule.Steps {
			return nil
		}
		logits, err := predict(ctx, x)
		if err != nil {
			return err
		}
		return write(sampleRows(b, chains, step, sp.raw(x), logits))
	})
	if err == nil {
		tellChains(rc, st)
	}
	return err
}

// tellChains records how the chains moved.
func tellChains(rc *pipeline.RunContext, st langevin.Stats) {
	for key, v := range map[string]float64{
		"displacement": st.Displacement, "energy_drop": st.EnergyDrop, "max_abs_log_density": st.MaxAbsLogP,
		"share_at_bounds": st.AtBounds, "acceptance": st.Acceptance,
	} {
		if !math.IsNaN(v) {
			rc.Detail(key, v)
		}
	}
}

// rule is the update rule of training, as far as a configuration tells, with what this stage changes.
func (s *SGLD) rule(stage func(pipeline.StageRef) pipeline.Stage) langevin.Rule {
	base := langevin.Default()
	if t, ok := stage(trainedBy(stage, s.Model)).(*Train); ok && len(t.Sampler.Lint()) == 0 {
		base = t.Sampler.Rule
	}
	return s.Changes.On(base)
}

// sampleRows is the table rows of all chains at one step. raw and logits hold the chains one after another.
func sampleRows(b bundle, c langevin.Chains, step int, raw, logits []float32) []outputs.Sample {
	rows := make([]outputs.Sample, len(c.Keys))
	k, width := len(b.Classes), b.Arch.Size()
	for i := range rows {
		z := score.Describe(logits[i*k:(i+1)*k], nil)
		rows[i] = outputs.Sample{Chain: int64(i), Step: int32(step), Energy: outputs.Defined(z.Energy()), Confidence: outputs.Defined(z.Confidence),
			X: raw[i*width : (i+1)*width]}
		if z.Pred >= 0 {
			rows[i].Pred, rows[i].PredName = new(int32(z.Pred)), text(b.Classes[z.Pred])
		}
		if c.Classes != nil {
			rows[i].Class, rows[i].ClassName = new(c.Classes[i]), text(b.Classes[c.Classes[i]])
		}
	}
	return rows
}
