package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/train/gorgonia"
)

// ExportKind writes a trained model as ONNX files and checks them against the engine that trained it.
func ExportKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "export", Version: 1,
		Summary: "Writes models/classifier.onnx (logits, energy, features), models/score.onnx (logits, energy and the gradient of logsumexp f(x)) and a copy of the weights. Fails when ONNX Runtime and gorgonia disagree on a probe batch.",
		New:     func() pipeline.Stage { return &Export{ProbeRows: 64, Tolerance: 1e-4} },
	}
}

// Export is the configuration of an export stage.
type Export struct {
	Model     pipeline.StageRef `yaml:"model" required:"true" default:"train" kinds:"train" doc:"Stage whose model is exported."`
	Probe     pipeline.DataRef  `yaml:"probe" default:"valid" doc:"Data set whose first rows make half of the probe batch; the rest is uniform noise over the raw range. Absent: noise alone."`
	ProbeRows int               `yaml:"probe_rows" min:"2" max:"4096" default:"64" doc:"Rows of the probe batch."`
	Tolerance float64           `yaml:"tolerance" above:"0" default:"1e-4" doc:"Largest difference between ONNX Runtime and gorgonia, relative to the largest value of the batch, for logits and for input gradients."`
}

// Lint implements pipeline.Stage.
func (e *Export) Lint(*pipeline.LintContext) {}

// Run implements pipeline.Stage.
func (e *Export) Run(ctx context.Context, rc *pipeline.RunContext) error {
	b, err := loadBundle(rc.StageDir(e.Model))
	if err != nil {
		return err
	}
	if err := b.save(rc.Dir.Path("models", weightsFile)); err != nil {
		return err
	}
	meta := b.facts()
	meta["weights_sha256"], meta["tool_version"], meta["fingerprint"] = b.hash(), rc.ToolVersion, rc.Fingerprint
	opt := lower.Options{Preprocess: &b.Preprocess, Metadata: meta}
	graphs := map[string][]byte{}
	for _, g := range []struct {
		file  string
		build func(model.Arch, model.Params, lower.Options) (*onnxpb.ModelProto, error)
	}{{classifierFile, lower.Classifier}, {scoreFile, lower.Score}} {
		graph, err := g.build(b.Arch, b.Params, opt)
		if err != nil {
			return fmt.Errorf("%s: %w", g.file, err)
		}
		if graphs[g.file], err = ir.Marshal(graph); err != nil {
			return fmt.Errorf("%s: %w", g.file, err)
		}
		if err := outputs.WriteFileAtomic(rc.Dir.Path("models", g.file), graphs[g.file]); err != nil {
			return err
		}
	}
	return e.check(ctx, rc, b, graphs)
}

// check runs the exported graphs and the training engine on one probe batch. They were made from the same description
// by code that shares nothing, so agreement means that both are right.
func (e *Export) check(ctx context.Context, rc *pipeline.RunContext, b bundle, graphs map[string][]byte) error {
	raw, err := e.probe(ctx, rc, b)
	if err != nil {
		return err
	}
	rt, err := rc.Runtime()
	if err != nil {
		return err
	}
	onnx, err := runGraph(ctx, rt, graphs[scoreFile], b, raw, e.ProbeRows, []string{"logits", "score"})
	if err != nil {
		return err
	}
	classifier, err := runGraph(ctx, rt, graphs[classifierFile], b, raw, e.ProbeRows, []string{"logits"})
	if err != nil {
		return err
	}
	sp, err := newSpace(b.Preprocess, b.Arch.Input)
	if err != nil {
		return err
	}
	x := sp.model(raw)
	logits, err := gorgonia.Forward(b.Arch, b.Params, x, e.ProbeRows)
	if err != nil {
		return err
	}
	_, gradient, err := gorgonia.InputGradient(b.Arch, b.Params, x, e.ProbeRows)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		key, file string
		got, want []float32
	}{
		{"classifier_logits_difference", classifierFile, classifier[0], logits},
		{"score_logits_difference", scoreFile, onnx[0], logits},
		{"score_gradient_difference", scoreFile, onnx[1], gradient},
	} {
		d := difference(c.got, c.want)
		rc.Detail(c.key, d)
		if !(d <= e.Tolerance) {
			return fault.New(fault.Internal, c.file, "%s is %.3g of the largest value, at most %g is wanted: ONNX Runtime and gorgonia disagree about this model", c.key, d, e.Tolerance).
				Do("report this with the architecture and the ONNX Runtime version; tolerance can be raised if the weights are very large")
		}
	}
	return nil
}

// probe is raw samples: rows of the probe data set, if any, and uniform noise.
func (e *Export) probe(ctx context.Context, rc *pipeline.RunContext, b bundle) ([]float32, error) {
	width := b.Arch.Size()
	raw := make([]float32, e.ProbeRows*width)
	lo, hi := b.rawRange()
	rng := keyed.New(stageSeed(rc), "export probe").At(0, 0)
	for i := range raw {
		raw[i] = float32(lo + (hi-lo)*rng.Float64())
	}
	if e.Probe == "" {
		return raw, nil
	}
	rows, err := firstRows(ctx, rc, e.Probe, e.ProbeRows/2)
	if err != nil {
		return nil, err
	}
	if len(rows.X) != rows.Len()*width {
		return nil, fault.New(fault.Data, "data."+string(e.Probe), "samples do not have the %d values that the model takes", width)
	}
	copy(raw, rows.X)
	return raw, nil
}

// firstRows gives up to n usable rows from the start of a data set.
func firstRows(ctx context.Context, rc *pipeline.RunContext, ref pipeline.DataRef, n int) (*datasets.Rows, error) {
	ds, err := rc.Data.Get(string(ref))
	if err != nil {
		return nil, err
	}
	r, err := ds.Open(ctx, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	rows, batch := &datasets.Rows{}, &datasets.Rows{}
	for rows.Len() < n {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		err = datasets.Decode(rec, batch)
		rec.Release()
		if err != nil {
			return nil, err
		}
		keepGood(batch, ds.Info().Width())
		rows.Append(batch, min(batch.Len(), n-rows.Len()), ds.Info().Width())
	}
	return rows, nil
}

// runGraph runs a graph that takes raw samples and gives the asked outputs, logits [n,K] and score [n,input shape].
func runGraph(ctx context.Context, rt *ort.Runtime, graph []byte, b bundle, raw []float32, n int, outs []string) ([][]float32, error) {
	s, err := rt.Session(graph, ort.SessionOptions{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	call, err := s.Bind([]string{"x"}, outs)
	if err != nil {
		return nil, err
	}
	in, err := ort.Float32(batchShape(n, b.Preprocess.SampleShape), raw)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	results := make([]*ort.Tensor, len(outs))
	if err := call.Run(ctx, []*ort.Tensor{in}, results); err != nil {
		return nil, err
	}
	values := make([][]float32, len(outs))
	for i, t := range results {
		values[i] = append([]float32(nil), t.Data()...)
		t.Close()
	}
	return values, nil
}

// difference is the largest absolute difference relative to the largest absolute value of want.
func difference(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, size float64
	for i := range want {
		d = max(d, math.Abs(float64(got[i])-float64(want[i])))
		size = max(size, math.Abs(float64(want[i])))
	}
	if size == 0 {
		return d
	}
	return d / size
}

// modelPath is the path of a model file of a stage.
func modelPath(rc *pipeline.RunContext, ref pipeline.StageRef, file string) string {
	return filepath.Join(rc.StageDir(ref), "models", file)
}
