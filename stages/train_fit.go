package stages

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/model"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/train"
	"github.com/jempipe/jempipe/train/gorgonia"
	"github.com/jempipe/jempipe/train/onnxruntime"
)

// fit runs the training loop, with ONNX Runtime for the chains, and gives table energies of the result. scratch holds
// its checkpoints and pictures.
func (t *Train) fit(ctx context.Context, rc *pipeline.RunContext, job trainJob, scratch string) (train.Result, []outputs.Energy, error) {
	rt, err := rc.Runtime()
	if err != nil {
		return train.Result{}, nil, err
	}
	engine, err := t.engine(rc, rt, job.bundle)
	if err != nil {
		return train.Result{}, nil, err
	}
	defer engine.Close()
	updater, err := gorgonia.NewUpdater(t.Optimizer.Solver(), job.bundle.Params, engine.Grads())
	if err != nil {
		return train.Result{}, nil, err
	}
	cfg := t.Config
	cfg.Sampler.StepsPerCall = stepsPerCall(rt, cfg.Sampler.Rule, true)
	need := liveOptions{conditional: t.Conditional(), rule: cfg.Sampler.Rule}
	if t.Generative() {
		need.densities = t.Shards
	}
	live, err := newLiveModel(rt, job.bundle, need)
	if err != nil {
		return train.Result{}, nil, err
	}
	defer live.Close()
	predict, err := live.predictor(rt)
	if err != nil {
		return train.Result{}, nil, err
	}
	deps := train.Deps{Params: job.bundle.Params, Engine: engine, Updater: updater, Densities: live.densities, Predict: predict, Log: rc.Log,
		Checkpoints: filepath.Join(scratch, "checkpoints")}
	if shape := job.bundle.Arch.Input; len(shape) == 3 {
		lo, hi := t.Sampler.Range[0], t.Sampler.Range[1]
		deps.Pictures = func(step int, chains []float32, _ []int32) error {
			return writeGrid(filepath.Join(scratch, samplesFolder, fmt.Sprintf(pictureName, step)), chains, shape, lo, hi)
		}
	}
	started, first := time.Now(), 0
	valid := math.NaN() // accuracy of the last evaluation
	deps.Progress = func(done, total int, r train.Record) {
		if first == 0 {
			first = done
		}
		if !math.IsNaN(r.ValidAccuracy) {
			valid = r.ValidAccuracy
		}
		rc.Steps(int64(done), int64(total), pipeline.Figure{Name: "gap", Value: r.Gap()}, pipeline.Figure{Name: "accuracy", Value: r.Accuracy},
			pipeline.Figure{Name: "valid_accuracy", Value: valid}, pipeline.Figure{Name: "loss", Value: r.Loss})
	}
	res, err := train.Run(ctx, cfg, job.data, job.seed, deps)
	if n := len(res.Records); n > 0 && first > 0 {
		speed := float64(res.Records[n-1].Step-first) / time.Since(started).Seconds()
		rc.Measure("steps_per_second", speed)
		rc.Log.Info("training ended", "steps", res.Records[n-1].Step, "steps_per_second", math.Round(speed*10)/10)
	}
	if err != nil {
		return res, nil, err
	}
	energies, err := job.energies(ctx, predict, res.Buffer)
	return res, energies, err
}

// engine opens the engine of the configuration. It says so where the other one would be much faster; the choice stays
// the user's, since the two differ in the last bits.
func (t *Train) engine(rc *pipeline.RunContext, rt *ort.Runtime, b bundle) (train.Engine, error) {
	if t.Engine == "onnxruntime" {
		return onnxruntime.New(rt, b.Arch, b.Params, t.Rows(), t.Shards, t.BatchSize)
	}
	const much = 1.5
	cost, err := t.StepCost(b.Arch)
	if err != nil {
		return nil, err
	}
	if f := cost.Factor(); f >= much {
		rc.Log.Info(fmt.Sprintf("engine: onnxruntime would take about 1/%.1f of the time for this network, by its count of operations", f), "engine", t.Engine)
	}
	return gorgonia.New(b.Arch, b.Params, t.Rows(), t.Shards, t.BatchSize)
}

// loadInit overwrites parameters with those of a safetensors file.
func (t *Train) loadInit(path string, params model.Params) error {
	from, _, err := readSafetensors(path)
	if err != nil {
		return err
	}
	for ours := range t.InitNames {
		if _, ok := params.Lookup(ours); !ok {
			return fault.New(fault.Config, "init_names", "the network has no parameter %s; it has %v", ours, names(params))
		}
	}
	for _, p := range params {
		name := p.Name
		if theirs, ok := t.InitNames[name]; ok {
			name = theirs
		}
		f, ok := from.Lookup(name)
		if !ok {
			return fault.New(fault.Data, path, "no tensor %s; the file has %v", name, names(from)).Do("name it in init_names")
		}
		if t.InitLayout == "pytorch" && len(f.Shape) == 2 {
			f = transposed(f)
		}
		if !slices.Equal(f.Shape, p.Shape) {
			return fault.New(fault.Data, path, "tensor %s has shape %v, parameter %s wants %v", name, f.Shape, p.Name, p.Shape).
				Do("check network, and init_layout: pytorch keeps dense weights as [out, in]")
		}
		copy(p.Data, f.Data)
	}
	return nil
}

func names(ps model.Params) (out []string) {
	for _, p := range ps {
		out = append(out, p.Name)
	}
	return out
}

// transposed is a matrix with its axes changed.
func transposed(t model.Tensor) model.Tensor {
	rows, cols := t.Shape[0], t.Shape[1]
	out := model.Tensor{Name: t.Name, Shape: []int{cols, rows}, Data: make([]float32, len(t.Data))}
	for i, v := range t.Data {
		out.Data[i%cols*rows+i/cols] = v
	}
	return out
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
	rc.Detail("rollbacks", last.Attempt)
	if res.Best != nil {
		rc.Detail("selected_step", res.Best.Step)
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
	rc.Detail("buffer_mean", res.Buffer.Mean())
}

func trainingRows(records []train.Record) []outputs.Training {
	rows := make([]outputs.Training, len(records))
	for i, r := range records {
		rows[i] = outputs.Training{
			Step: int64(r.Step), Attempt: new(int32(r.Attempt)), Event: text(r.Event), Epoch: r.Epoch, LR: r.LearningRate,
			Loss: outputs.Defined(r.Loss), LossPX: outputs.Defined(r.PX), LossPYX: outputs.Defined(r.PYgivenX), LossPXY: outputs.Defined(r.PXY), LossReg: outputs.Defined(r.Reg),
			FData: outputs.Defined(r.FData), FSamples: outputs.Defined(r.FSamples), Gap: outputs.Defined(r.Gap()), GradNorm: outputs.Defined(r.GradNorm),
			Accuracy: outputs.Defined(r.Accuracy), ValidAccuracy: outputs.Defined(r.ValidAccuracy), ValidNLL: outputs.Defined(r.ValidNLL),
			GapSign: outputs.Defined(r.GapSign), SamplesAtBounds: outputs.Defined(r.SamplesAtBounds), DataAtBounds: outputs.Defined(r.DataAtBounds),
			EnergyDrop: outputs.Defined(r.EnergyDrop), RestartShare: outputs.Defined(r.Restarts), Acceptance: outputs.Defined(r.Acceptance),
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
