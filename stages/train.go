package stages

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/train"
	"github.com/jempipe/jempipe/train/gorgonia"
)

// TrainKind trains a joint energy-based model, or the same network as a plain classifier.
func TrainKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "train", Version: 1,
		Summary: "Trains a network on a data set: as a joint energy-based model, or as a plain classifier. Writes models/weights.safetensors, models/buffer.safetensors (the replay buffer) and tables/training.parquet.",
		New: func() pipeline.Stage {
			return &Train{Network: defaultNetwork(), Preprocess: Preprocess{Scale: 1, Layout: "auto"}, MemoryMB: 4096, Config: train.Default()}
		},
	}
}

// Train is the configuration of a train stage.
type Train struct {
	Data       pipeline.DataRef `yaml:"data" required:"true" default:"train" doc:"Data set to train on. It is held in memory. Rows without a label take part in p(x) alone."`
	Validate   pipeline.DataRef `yaml:"validate" default:"valid" doc:"Labelled data set that is evaluated now and then; it decides nothing."`
	MemoryMB   int64            `yaml:"memory_mb" min:"1" default:"4096" fingerprint:"-" doc:"Largest size of the training rows as float32, in MiB."`
	Network    Network          `yaml:"network" doc:"Architecture."`
	Preprocess Preprocess       `yaml:"preprocess" doc:"How raw values become model space. Recorded with the model and built into the exported graphs."`
	train.Config
}

// Lint implements pipeline.Stage.
func (t *Train) Lint(lc *pipeline.LintContext) {
	for _, p := range t.Config.Lint(0) {
		lc.Problem(p.Key, "%s", p.Message)
	}
	if (t.Preprocess.Mean == nil) != (t.Preprocess.Std == nil) {
		lc.Problem("preprocess", "mean and std go together: give both, or neither to scale the data set's range to [-1,1]")
	}
}

// Run implements pipeline.Stage.
func (t *Train) Run(ctx context.Context, rc *pipeline.RunContext) error {
	job, err := t.prepare(ctx, rc)
	if err != nil {
		return err
	}
	res, err := t.fit(ctx, rc, job)
	if len(res.Records) > 0 {
		summarise(rc, res)
	}
	if err != nil {
		return err
	}
	if err := job.bundle.save(rc.Dir.Path("models", weightsFile)); err != nil {
		return err
	}
	if res.Buffer != nil {
		if err := saveBuffer(rc.Dir.Path("models", bufferFile), res.Buffer, job.bundle.hash()); err != nil {
			return err
		}
	}
	return writeTable(rc, "training", tableMeta(rc, job.bundle.hash(), job.bundle.Classes), trainingRows(res.Records))
}

// trainJob is a training run before its first step.
type trainJob struct {
	bundle bundle
	data   train.Data
	seed   uint64
}

func (t *Train) prepare(ctx context.Context, rc *pipeline.RunContext) (trainJob, error) {
	rows, info, err := t.read(ctx, rc, t.Data)
	if err != nil {
		return trainJob{}, err
	}
	pre, arch, err := t.design(rc.Name, info)
	if err != nil {
		return trainJob{}, err
	}
	seed := stageSeed(rc)
	params, err := arch.Init(func(i int) *rand.Rand { return keyed.New(seed, "train init").At(uint64(i), 0).Rand })
	if err != nil {
		return trainJob{}, err
	}
	sp, err := newSpace(pre, arch.Input)
	if err != nil {
		return trainJob{}, err
	}
	job := trainJob{seed: seed,
		bundle: bundle{Arch: arch, Params: params, Preprocess: pre, Classes: info.Classes, Lo: info.Lo, Hi: info.Hi, Objective: t.Objective, Sampler: t.Sampler},
		data:   train.Data{Dim: arch.Size(), Classes: arch.Classes}}
	job.data.X, job.data.Labels = sp.model(rows.X), labelsOf(rows)
	if t.Validate != "" {
		valid, vinfo, err := t.read(ctx, rc, t.Validate)
		if err != nil {
			return trainJob{}, err
		}
		job.data.ValidX, job.data.ValidLabels = sp.model(valid.X), labelsOf(valid)
		for i, y := range job.data.ValidLabels {
			if int(y) >= arch.Classes {
				return trainJob{}, fault.New(fault.Data, "data."+vinfo.Name, "row with id %s has label %d, the model has classes 0 to %d", valid.ID(i), y, arch.Classes-1)
			}
		}
	}
	rc.Detail("parameters", params.Count())
	rc.Detail("train_rows", rows.Len())
	rc.Detail("steps", t.TotalSteps(rows.Len()))
	return job, nil
}

// design gives preprocessing and architecture for a data set, or says what about it does not fit.
func (t *Train) design(stage string, info datasets.Info) (lower.Preprocess, model.Arch, error) {
	none := lower.Preprocess{}
	switch n := len(info.Classes); {
	case n == 0:
		return none, model.Arch{}, fault.New(fault.Config, "data."+info.Name, "the classes are not known, and labels do not tell which could have occurred").
			Do("state num_classes or class_names at the data set")
	case n == 1:
		return none, model.Arch{}, fault.New(fault.Config, "data."+info.Name, "one class; a classifier needs at least two")
	}
	if !info.Labelled && t.Supervised() {
		return none, model.Arch{}, fault.New(fault.Data, "data."+info.Name, "no labels: the cross-entropy has nothing to learn from").
			Do("give labels, or set loss.p_y_given_x of stage %s to 0 to train p(x) alone", stage)
	}
	pre, input, err := t.Preprocess.resolve(info)
	if err != nil {
		return pre, model.Arch{}, err
	}
	arch, err := t.Network.build(input, len(info.Classes))
	if err != nil {
		return pre, arch, fault.New(fault.Config, "stages."+stage+".network", "%v", err)
	}
	if err := pre.Check(arch.Input); err != nil {
		return pre, arch, fault.New(fault.Config, "stages."+stage+".preprocess", "%v", err)
	}
	for _, p := range t.Config.Lint(arch.Classes) {
		return pre, arch, fault.New(fault.Config, "stages."+stage+"."+p.Key, "%s", p.Message)
	}
	return pre, arch, nil
}

// CheckData implements pipeline.DataChecker.
func (t *Train) CheckData(dc *pipeline.DataContext) (errs []error) {
	info, ok := dc.Data(t.Data)
	if !ok {
		return nil
	}
	if _, _, err := t.design(dc.Name(), info); err != nil {
		errs = append(errs, err)
	}
	if valid, ok := dc.Data(t.Validate); ok {
		if err := fits(valid, infoModel(info), true); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// read holds a data set in memory, without the rows that could not be decoded.
func (t *Train) read(ctx context.Context, rc *pipeline.RunContext, ref pipeline.DataRef) (*datasets.Rows, datasets.Info, error) {
	ds, err := rc.Data.Get(string(ref))
	if err != nil {
		return nil, datasets.Info{}, err
	}
	rows, err := datasets.ReadAll(ctx, ds, t.MemoryMB<<20)
	if err != nil {
		return nil, datasets.Info{}, err
	}
	if dropped := keepGood(rows, ds.Info().Width()); dropped > 0 {
		rc.Log.Warn("rows that could not be decoded take no part in training", "data", ref, "rows", dropped)
		rc.Detail("dropped_rows_"+string(ref), dropped)
	}
	if rows.Len() == 0 {
		return nil, datasets.Info{}, fault.New(fault.Data, "data."+string(ref), "no usable row")
	}
	return rows, ds.Info(), nil
}

// fit runs the training loop with gorgonia for the parameters and ONNX Runtime for the chains.
func (t *Train) fit(ctx context.Context, rc *pipeline.RunContext, job trainJob) (train.Result, error) {
	engine, err := gorgonia.New(job.bundle.Arch, job.bundle.Params, t.Rows(), t.Shards)
	if err != nil {
		return train.Result{}, err
	}
	defer engine.Close()
	updater, err := gorgonia.NewUpdater(t.Optimizer.Solver(), job.bundle.Params, engine.Grads())
	if err != nil {
		return train.Result{}, err
	}
	rt, err := rc.Runtime()
	if err != nil {
		return train.Result{}, err
	}
	need := liveOptions{conditional: t.Sampler.Conditional || t.Loss.PXY > 0}
	if t.Objective == "jem" {
		need.densities = t.Shards
	}
	live, err := newLiveModel(rt, job.bundle, need)
	if err != nil {
		return train.Result{}, err
	}
	defer live.Close()
	predict, err := live.predictor(rt)
	if err != nil {
		return train.Result{}, err
	}
	deps := train.Deps{Engine: engine, Updater: updater, Predict: predict, Log: rc.Log}
	if t.Objective == "jem" {
		if deps.Sampler, err = langevin.NewSampler(t.langevin(), job.data.Dim, keyed.New(job.seed, "train sgld"), live.densities...); err != nil {
			return train.Result{}, err
		}
	}
	started := time.Now()
	deps.Progress = func(done, total int, r train.Record) {
		rc.Progress(int64(done), int64(total), "loss %.3f, gap %.3f, accuracy %.3f", r.Loss, r.Gap(), r.Accuracy)
	}
	res, err := train.Run(ctx, t.Config, job.data, job.seed, deps)
	if n := len(res.Records); n > 0 {
		speed := float64(n) / time.Since(started).Seconds()
		rc.Measure("steps_per_second", speed)
		rc.Log.Info("training ended", "steps", n, "steps_per_second", math.Round(speed*10)/10)
	}
	return res, err
}

func (t *Train) langevin() langevin.Config {
	s := t.Sampler
	return langevin.Config{Steps: s.Steps, StepSize: s.StepSize, NoiseStd: s.NoiseStd, GradClip: s.GradClip, Clamp: s.Clamp, Lo: s.Range[0], Hi: s.Range[1]}
}

// summarise tells how the run ended, for run.json.
func summarise(rc *pipeline.RunContext, res train.Result) {
	last := res.Records[len(res.Records)-1]
	for key, v := range map[string]float64{
		"final_loss": last.Loss, "final_valid_accuracy": last.ValidAccuracy, "final_valid_nll": last.ValidNLL,
	} {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			rc.Detail(key, v)
		}
	}
	if res.Buffer == nil {
		return
	}
	var gap float64
	tail := res.Records[len(res.Records)-min(len(res.Records), 100):]
	for _, r := range tail {
		gap += r.Gap() / float64(len(tail))
	}
	rc.Detail("gap_mean_last_100_steps", gap)
	rc.Detail("gap_alarms", res.Alarms)
	rc.Detail("buffer_mean", res.Buffer.Mean())
}

func trainingRows(records []train.Record) []outputs.Training {
	rows := make([]outputs.Training, len(records))
	for i, r := range records {
		rows[i] = outputs.Training{
			Step: int64(r.Step), Epoch: r.Epoch, LR: r.LearningRate,
			Loss: outputs.Defined(r.Loss), LossPX: outputs.Defined(r.PX), LossPYX: outputs.Defined(r.PYgivenX), LossPXY: outputs.Defined(r.PXY), LossReg: outputs.Defined(r.Reg),
			FData: outputs.Defined(r.FData), FSamples: outputs.Defined(r.FSamples), Gap: outputs.Defined(r.Gap()), GradNorm: outputs.Defined(r.GradNorm),
			Accuracy: outputs.Defined(r.Accuracy), ValidAccuracy: outputs.Defined(r.ValidAccuracy), ValidNLL: outputs.Defined(r.ValidNLL),
			SampleMean: outputs.Defined(r.SampleMean), DataMean: outputs.Defined(r.DataMean), ChainDisplacement: outputs.Defined(r.Displacement), MaxAbsF: outputs.Defined(r.MaxAbsF),
		}
	}
	return rows
}

func saveBuffer(path string, b *langevin.Buffer, weights string) error {
	t := model.Tensor{Name: "buffer", Shape: []int{b.Size, b.Dim}, Data: b.X}
	return writeSafetensors(path, model.Params{t}, map[string]string{"classes": fmt.Sprint(b.Classes), "weights_sha256": weights})
}

// loadBuffer reads the replay buffer that belongs to a model.
func loadBuffer(path, weights string) (*langevin.Buffer, error) {
	params, meta, err := readSafetensors(path)
	if err != nil {
		return nil, err
	}
	if meta["weights_sha256"] != weights {
		return nil, fault.New(fault.Config, path, "the replay buffer was trained with another model").Do("let model and buffer name the same training")
	}
	b := &langevin.Buffer{Classes: 1}
	if len(params) != 1 || len(params[0].Shape) != 2 {
		return nil, fault.New(fault.Data, path, "want one tensor of shape [chains, elements]")
	}
	if _, err := fmt.Sscan(meta["classes"], &b.Classes); err != nil || b.Classes < 1 {
		return nil, fault.New(fault.Data, path, "metadata classes is %q, want a positive number", meta["classes"])
	}
	b.X, b.Size, b.Dim = params[0].Data, params[0].Shape[0], params[0].Shape[1]
	return b, nil
}
