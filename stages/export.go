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
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/onnx/selftest"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/train/gorgonia"
)

// ExportKind writes a trained model as ONNX files and checks them against the engine that trained it.
func ExportKind() pipeline.Kind {
	return pipeline.Kind{
		Name: "export", Version: 3,
		Summary: "Writes models/classifier.onnx (logits, energy, features), models/score.onnx (logits, energy and the gradient of logsumexp f(x)), models/langevin.onnx (several updates of SGLD chains in one call, in model space; langevin_class.onnx: of p(x|y)) and a copy of the weights. Tests the gradient against central differences on a probe batch; fails when it, or ONNX Runtime and gorgonia, or the chains and the sampler disagree. The model of a model stage that cannot be differentiated is exported without score.onnx, and none of a model stage with langevin.onnx.",
		New:     func() pipeline.Stage { return &Export{ProbeRows: 64, Tolerance: 1e-4} },
	}
}

// Export is the configuration of an export stage.
type Export struct {
	Model     pipeline.StageRef `yaml:"model" required:"true" default:"train|model" kinds:"train|model" doc:"Stage whose model is exported."`
	Probe     pipeline.DataRef  `yaml:"probe" default:"valid" doc:"Data set whose first rows make half of the probe batch; the rest is uniform noise over the raw range. Absent: noise alone."`
	ProbeRows int               `yaml:"probe_rows" min:"2" max:"4096" default:"64" doc:"Rows of the probe batch."`
	Tolerance float64           `yaml:"tolerance" above:"0" default:"1e-4" doc:"Largest difference between ONNX Runtime and gorgonia, relative to the largest value of the batch, for logits and for input gradients. Of no use for the model of a model stage."`
}

// Lint implements pipeline.Stage.
func (e *Export) Lint(*pipeline.LintContext) {}

// Run implements pipeline.Stage.
func (e *Export) Run(ctx context.Context, rc *pipeline.RunContext) error {
	if _, ok := rc.StageConfig(e.Model).(*Model); ok {
		return e.foreign(ctx, rc)
	}
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
	for _, g := range exports(b) {
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
	lo, hi := b.rawRange()
	raw, err := e.probe(ctx, rc, b.Arch.Size(), lo, hi)
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
	if err := e.selfTest(ctx, rc, rt, b, graphs[scoreFile], raw); err != nil {
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
		if err := e.agree(rc, c.key, c.file, c.got, c.want, "ONNX Runtime and gorgonia"); err != nil {
			return err
		}
	}
	for _, file := range []string{langevinFile, langevinClassFile} {
		if graphs[file] == nil {
			continue
		}
		if err := e.checkLangevin(ctx, rc, rt, b, file, graphs[file], testRows(x, b.Arch.Size())); err != nil {
			return err
		}
	}
	return nil
}

// selfTest compares the gradient graph with central differences of its own logits.
func (e *Export) selfTest(ctx context.Context, rc *pipeline.RunContext, rt *ort.Runtime, b bundle, graph []byte, raw []float32) error {
	s, err := rt.Session(graph, ort.SessionOptions{Threads: 1, Name: scoreFile})
	if err != nil {
		return err
	}
	defer s.Close()
	from, scale, _, err := b.Preprocess.Map(b.Arch.Input)
	if err != nil {
		return err
	}
	g := selftest.Graph{Session: s, Name: scoreFile, Input: lower.InputX, Shape: b.Preprocess.SampleShape, Logits: lower.OutputLogits,
		Score: lower.OutputScore, Readout: lower.Energy.Of, From: from, Scale: scale}
	report, err := g.Run(ctx, testRows(raw, b.Arch.Size()), stageSeed(rc))
	tellTest(rc, report)
	return err
}

// tellTest records what the self-test of a gradient graph measured.
func tellTest(rc *pipeline.RunContext, report selftest.Report) {
	rc.Detail("gradient_test", report)
	if report.Note != "" {
		rc.Log.Warn("the gradient could hardly be tested", "why", report.Note)
	}
}

// testRows are the rows of a probe that the self-test takes: from the middle, where rows of data meet noise.
func testRows(raw []float32, width int) []float32 {
	const most = 16
	n := len(raw) / width
	first := max(0, n/2-most/2)
	return raw[first*width : min(n, first+most)*width]
}

// probe is raw samples: rows of the probe data set, if any, and uniform noise.
func (e *Export) probe(ctx context.Context, rc *pipeline.RunContext, width int, lo, hi float64) ([]float32, error) {
	raw := make([]float32, e.ProbeRows*width)
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
	return readFirst(ctx, ds, n)
}

func readFirst(ctx context.Context, ds datasets.Dataset, n int) (*datasets.Rows, error) {
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
