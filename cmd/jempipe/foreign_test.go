package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/outputs"
)

// stranger is a network that somebody else exported: image [N, 64] to probabilities [N, 10] over a softmax. change may
// make something of it before it is written.
func stranger(t *testing.T, path string, change func(g *ir.Graph)) {
	t.Helper()
	m := ir.NewModel("stranger", 8, 13)
	g, err := ir.NewGraph(m)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(g.Input("image", ir.Float32, ir.Free("batch"), ir.Fixed(8), ir.Fixed(8)))
	weights := func(name string, rows, columns int) string {
		w := make([]float32, rows*columns)
		for i := range w {
			w[i] = float32(math.Sin(float64(7*i+rows))) / 8
		}
		must(g.Initializer(ir.Float32Tensor(name, []int64{int64(rows), int64(columns)}, w)))
		return name
	}
	flat := g.Add("Flatten", []string{"image"})
	h := g.Add("Tanh", []string{g.Add("MatMul", []string{flat, weights("w1", 64, 12)})})
	g.AddNamed("head", "MatMul", []string{h, weights("w2", 12, 10)}, []string{"z"})
	g.AddNamed("probs", "Softmax", []string{"z"}, []string{"probs"}, ir.Int("axis", -1))
	g.Output("probs", ir.Float32, ir.Free("batch"), ir.Fixed(10))
	if change != nil {
		change(g)
	}
	data, err := ir.Marshal(m)
	must(err)
	must(os.WriteFile(path, data, 0o644))
}

func TestExportGradient(t *testing.T) {
	requireRuntime(t)
	dir := t.TempDir()
	model, to := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "out.onnx")
	stranger(t, model, nil)
	custom := filepath.Join(dir, "custom.onnx")
	stranger(t, custom, func(g *ir.Graph) { g.Model.Graph.Node[1].Domain = "com.example" })
	rounded := filepath.Join(dir, "rounded.onnx")
	stranger(t, rounded, func(g *ir.Graph) { g.Model.Graph.Node[2].OpType = "Round" })
	for _, c := range []struct {
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{[]string{model, "-o", to}, 0, []string{"output score is the gradient of energy", "the input of the final Softmax", "10 classes", "tested:"}, nil},
		{[]string{"--of", "logit:3", model, "-o", to}, 0, []string{"output gradient is the gradient of logit:3"}, nil},
		{[]string{model, "--of=confidence", "-o", to}, 0, []string{"gradient of confidence"}, nil},
		{[]string{model, "--of", "loss:9", "--wrt", "w2", "-o", to}, 0, []string{"not tested: the gradient with respect to w2"}, nil},
		{[]string{model}, 2, nil, []string{"-o score.onnx"}},
		{[]string{model, "-o", model}, 2, nil, []string{"is the model itself"}},
		{[]string{model, "-o", to, "--output", "z", "--output-kind", "probabilities"}, 4, nil, []string{"said to be probabilities"}},
		{[]string{model, "-o", to, "--output-kind", "logits"}, 0, []string{"look like probabilities"}, nil},
		{[]string{model, "-o", to, "--of", "energie"}, 2, nil, []string{"energie", "did you mean energy"}},
		{[]string{model, "-o", to, "--of", "logit"}, 2, nil, []string{"needs a class"}},
		{[]string{model, "-o", to, "--of", "logit:10"}, 4, nil, []string{"classes 0 to 9"}},
		{[]string{model, "-o", to, "--wrt", "nothing"}, 4, nil, []string{`no value "nothing"`}},
		{[]string{model, "-o", to, "--output", "y"}, 4, nil, []string{`no value "y"`, "probs"}},
		{[]string{model, "-o", to, "--shape", "8,x"}, 2, nil, []string{"8,x"}},
		{[]string{custom, "-o", to}, 4, nil, []string{"com.example.MatMul", "standard operators"}},
		{[]string{rounded, "-o", to}, 4, nil, []string{"Round", "which has none"}},
		{[]string{filepath.Join(dir, "none.onnx"), "-o", to}, 4, nil, []string{"none.onnx"}},
		{[]string{model, "-o", filepath.Join(model, "x.onnx")}, 1, nil, []string{"model.onnx"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, stdout, stderr := jempipe(append([]string{"export", "gradient"}, c.args...)...)
			if code != c.code {
				t.Fatalf("exit code %d, want %d: %s", code, c.code, stderr)
			}
			for _, want := range c.stdout {
				if !strings.Contains(stdout, want) {
					t.Errorf("stdout lacks %q: %s", want, stdout)
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q: %s", want, stderr)
				}
			}
		})
	}
	if code, stdout, _ := jempipe("inspect", to); code != 0 || !strings.Contains(stdout, "MatMul") {
		t.Errorf("inspect: code %d, %s", code, stdout)
	}
}

const onStranger = `version: 1
name: stranger
runtime: {provider: cpu, threads: 1}
data:
  valid: {source: "builtin:digits", split: valid, limit: 40}
  test: {source: "builtin:digits", split: test, limit: 40}
  noise: {derive: uniform_noise, of: test}
stages:
  model: {onnx: model.onnx, preprocess: {scale: 0.0625}SCORE}
  export: {}
  infer: {id: [valid, test], ood: noise}
`

// frozen makes of the stranger a gradient graph that gives the same for every input.
func frozen(g *ir.Graph) {
	g.Model.Graph.Output = nil
	row := make([]float32, 64)
	for i := range row {
		row[i] = float32(i%5) - 2
	}
	g.Model.Graph.Initializer = append(g.Model.Graph.Initializer, ir.Float32Tensor("row", []int64{1, 8, 8}, row))
	g.AddNamed("shape", "Shape", []string{"image"}, []string{"shape"})
	g.AddNamed("expand", "Expand", []string{"row", "shape"}, []string{"score"})
	g.Output("score", ir.Float32, ir.Free("batch"), ir.Fixed(8), ir.Fixed(8))
}

// check tries the model and its gradient out; run and check refuse a supplied gradient that is none.
func TestModelOfOthers(t *testing.T) {
	requireRuntime(t)
	dir := t.TempDir()
	stranger(t, filepath.Join(dir, "model.onnx"), nil)
	stranger(t, filepath.Join(dir, "frozen.onnx"), frozen)
	good := write(t, dir, "good.yaml", strings.Replace(onStranger, "SCORE", "", 1))
	code, stdout, stderr := jempipe("check", good)
	if code != 0 || !strings.Contains(stdout, "model: model.onnx: 10 classes") || !strings.Contains(stdout, "agree with central differences") {
		t.Fatalf("check: code %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := jempipe("run", good); code != 0 {
		t.Fatalf("run: code %d, %s", code, stderr)
	}
	if code, stdout, _ := jempipe("run", good); code != 0 || !strings.Contains(stdout, "nothing to do") {
		t.Errorf("second run: code %d, %s", code, stdout)
	}
	bad := write(t, dir, "bad.yaml", strings.Replace(onStranger, "SCORE", ", score: frozen.onnx", 1))
	for _, command := range []string{"check", "run"} {
		code, _, stderr := jempipe(command, bad)
		if code != 4 || !strings.Contains(stderr, "frozen constant") {
			t.Errorf("%s: code %d, %s", command, code, stderr)
		}
	}
}

// The weights beside a model are part of it: when they change, its stage runs again.
func TestExternalWeightsAreWatched(t *testing.T) {
	requireRuntime(t)
	dir := t.TempDir()
	weights := make([]byte, 4*64*12)
	stranger(t, filepath.Join(dir, "model.onnx"), func(g *ir.Graph) {
		for _, w := range g.Model.Graph.Initializer {
			if w.Name == "w1" {
				copy(weights, w.RawData)
				w.RawData, w.DataLocation = nil, onnxpb.TensorProto_EXTERNAL
				w.ExternalData = []*onnxpb.StringStringEntryProto{{Key: "location", Value: "w1.bin"}}
			}
		}
	})
	write(t, dir, "w1.bin", string(weights))
	file := write(t, dir, "pipeline.yaml", strings.Replace(onStranger, "SCORE", "", 1))
	if code, _, stderr := jempipe("run", file); code != 0 {
		t.Fatalf("code %d, %s", code, stderr)
	}
	weights[1]++
	write(t, dir, "w1.bin", string(weights))
	if code, stdout, stderr := jempipe("run", file); code != 0 || !strings.Contains(stdout, "ran model") {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	if err := os.Remove(filepath.Join(dir, "w1.bin")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := jempipe("run", file); code != 4 || !strings.Contains(stderr, "w1.bin") {
		t.Errorf("without the weights: code %d, %s", code, stderr)
	}
}

// A batch size that is built in beyond freeing: batches are cut to it and the last one filled up, in infer and sgld.
func TestBatchSizeBuiltIn(t *testing.T) {
	requireRuntime(t)
	dir := t.TempDir()
	// The rows of the logits are multiplied with a unit matrix of a fixed size.
	mixed := func(rows int) func(g *ir.Graph) {
		return func(g *ir.Graph) {
			pb := g.Model.Graph
			pb.Node, pb.Output = pb.Node[:len(pb.Node)-1], nil
			if rows > 1 {
				unit := make([]float32, rows*rows)
				for i := range rows {
					unit[i*rows+i] = 1
				}
				pb.Initializer = append(pb.Initializer, ir.Float32Tensor("unit", []int64{int64(rows), int64(rows)}, unit))
				pb.Input[0] = ir.ValueInfo("image", ir.Float32, ir.FixedDims(int64(rows), 8, 8)...)
				g.AddNamed("mixed", "MatMul", []string{"unit", "z"}, []string{"logits"})
			} else {
				g.AddNamed("mixed", "Identity", []string{"z"}, []string{"logits"})
			}
			g.Output("logits", ir.Float32, ir.Dim{}, ir.Fixed(10))
		}
	}
	energies := func(name string, rows int) []float64 {
		stranger(t, filepath.Join(dir, "model.onnx"), mixed(rows))
		text := strings.Replace(strings.Replace(onStranger, "SCORE", "", 1), "name: stranger", "name: "+name, 1)
		file := write(t, dir, "pipeline.yaml", text+"  sgld: {start: noise, chains: 7, steps: 3, shards: 1}\n")
		if code, _, stderr := jempipe("run", file); code != 0 {
			t.Fatalf("code %d, %s", code, stderr)
		}
		if meta, err := os.ReadFile(filepath.Join(dir, "runs", name, "model", "_stage.json")); err != nil || strings.Contains(string(meta), `"batch": 4`) != (rows == 4) {
			t.Errorf("%s: %v %s", name, err, meta)
		}
		var out []float64
		rowsOf, err := outputs.ReadAll[outputs.Prediction[int64]](filepath.Join(dir, "runs", name, "infer", "predictions", "dataset=test", "part-00000-of-00001.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rowsOf {
			out = append(out, *r.Energy, *r.ScoreNorm)
		}
		samples, err := outputs.ReadAll[outputs.Sample](filepath.Join(dir, "runs", name, "sgld", "tables", "samples.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			out = append(out, *s.Energy)
		}
		return out
	}
	free, fixed := energies("free", 1), energies("fixed", 4)
	if len(free) != len(fixed) {
		t.Fatalf("%d and %d values", len(free), len(fixed))
	}
	for i := range free {
		if d := math.Abs(free[i] - fixed[i]); !(d <= 1e-5*(1+math.Abs(free[i]))) {
			t.Fatalf("value %d: %v in batches of 4, %v in free ones", i, fixed[i], free[i])
		}
	}
}
