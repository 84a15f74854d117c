package stages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/augment"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/train"
)

// TrainKind trains a joint energy-based model, or the same network as a plain classifier.
func TrainKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "train", Version: 3,
		Summary: "Trains a network on a data set: as a joint energy-based model, or as a plain classifier. Writes models/weights.safetensors, models/buffer.safetensors (the replay buffer), tables/training.parquet, tables/energies.parquet and samples/ with pictures of the chains. A run that was stopped goes on from its last checkpoint.",
		New: func() pipeline.Stage {
			return &Train{Network: defaultNetwork(), Preprocess: Preprocess{Scale: 1, Layout: "auto"}, MemoryMB: 4096, InitLayout: "jempipe", Config: train.Default()}
		},
	}
}

// Train is the configuration of a train stage.
type Train struct {
	Data       pipeline.DataRef  `yaml:"data" required:"true" default:"train" doc:"Data set to train on. It is held in memory. Rows without a label take part in p(x) alone."`
	Validate   pipeline.DataRef  `yaml:"validate" default:"valid" doc:"Labelled data set that is evaluated now and then; it decides nothing."`
	MemoryMB   int64             `yaml:"memory_mb" min:"1" default:"4096" fingerprint:"-" doc:"Largest size of the training rows as float32, in MiB."`
	Init       pipeline.FileRef  `yaml:"init" doc:"Safetensors file of weights to start from, in place of random ones: of a network of the same architecture, by jempipe or others."`
	InitNames  map[string]string `yaml:"init_names" doc:"Names in that file where they differ: our name to the one there."`
	InitLayout string            `yaml:"init_layout" enum:"jempipe|pytorch" default:"jempipe" doc:"pytorch: weights of dense layers stand as [out, in] in the file, and are turned into [in, out]."`
	Network    Network           `yaml:"network" doc:"Architecture."`
	Preprocess Preprocess        `yaml:"preprocess" doc:"How raw values become model space. Recorded with the model and built into the exported graphs."`
	train.Config
}

// Lint implements pipeline.Stage.
func (t *Train) Lint(lc *pipeline.LintContext) {
	for _, p := range t.Config.Lint(0) {
		lc.Problem(p.Key, "%s", p.Message)
	}
	t.Network.lint(lc)
	if t.Select != "last" && t.Validate == "" {
		lc.Problem("select", "%s needs a data set in validate: test rows decide nothing", t.Select)
	}
	if len(t.InitNames) > 0 && t.Init == "" {
		lc.Problem("init_names", "there is no file in init whose names these could be")
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
	scratch, err := rc.Scratch()
	if err != nil {
		return err
	}
	res, energies, err := t.fit(ctx, rc, job, scratch)
	if len(res.Records) > 0 {
		summarise(rc, res)
	}
	if err != nil {
		return t.failed(rc, scratch, job, res, err)
	}
	if err := keepPictures(rc, scratch); err != nil {
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
	meta := tableMeta(rc, job.bundle.hash(), job.bundle.Classes)
	if err := writeTable(rc, "energies", meta, energies); err != nil {
		return err
	}
	return writeTable(rc, "training", meta, trainingRows(res.Records))
}

// failed keeps what a run that went wrong has recorded, beside its checkpoints, and says where.
func (t *Train) failed(rc *pipeline.RunContext, scratch string, job trainJob, res train.Result, err error) error {
	if len(res.Events) == 0 || len(res.Records) == 0 || errors.Is(err, context.Canceled) {
		return err
	}
	path := filepath.Join(scratch, "training.parquet")
	meta := tableMeta(rc, job.bundle.hash(), job.bundle.Classes)
	if writing := outputs.WriteAll(path, meta.Map(), trainingRows(res.Records)); writing != nil {
		return errors.Join(err, writing)
	}
	return fmt.Errorf("%w (every step of the run stands in %s)", err, path)
}

// trainJob is a training run before its first step.
type trainJob struct {
	bundle bundle
	data   train.Data
	probes []probe // of the data sets
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
	params, err := arch.InitWith(t.Network.initializer(), func(i int) *rand.Rand { return keyed.New(seed, "train init").At(uint64(i), 0).Rand })
	if err == nil && t.Init != "" {
		err = t.loadInit(rc.File(t.Init), params)
	}
	if err != nil {
		return trainJob{}, err
	}
	sp, err := newSpace(pre, arch.Input)
	if err != nil {
		return trainJob{}, err
	}
	job := trainJob{seed: seed,
		bundle: bundle{Arch: arch, Params: params, Preprocess: pre, Classes: info.Classes, Lo: info.Lo, Hi: info.Hi, Objective: t.Objective, Sampler: t.Sampler},
		data:   train.Data{Dim: arch.Size(), Shape: arch.Input, Classes: arch.Classes}}
	job.data.X, job.data.Labels = sp.model(rows.X), labelsOf(rows)
	job.probes = []probe{newProbe(outputs.EnergyTrain, info.Name, rows)}
	if t.Validate != "" {
		valid, vinfo, err := t.read(ctx, rc, t.Validate)
		if err != nil {
			return trainJob{}, err
		}
		job.data.ValidX, job.data.ValidLabels = sp.model(valid.X), labelsOf(valid)
		job.probes = append(job.probes, newProbe(outputs.EnergyValid, vinfo.Name, valid))
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
	if err := t.Sampler.Augment.Check(arch.Input); err != nil && t.Generative() {
		return pre, arch, fault.New(fault.Config, "stages."+stage+".sampler.augment", "%v", err)
	}
	for key, a := range map[string]augment.Config{"augment": t.Augment, "sampler.augment": t.Sampler.Augment} {
		if err := a.Check(arch.Input); err != nil {
			return pre, arch, fault.New(fault.Config, "stages."+stage+"."+key, "%v", err)
		}
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
