package stages

import (
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/testdata"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/outputs"
)

// trained gives the weights of a run.
func trained(t *testing.T, run string) model.Params {
	t.Helper()
	ps, _, err := readSafetensors(filepath.Join(run, "train", "models", weightsFile))
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// The two engines differ in rounding alone: the losses of their first steps agree, as long as rounding has not grown.
func TestEnginesTrainAlike(t *testing.T) {
	for name, network := range map[string]string{
		"convnet":     "{channels: [8, 16], hidden: [16]}",
		"wide_resnet": "{arch: wide_resnet, depth: 10, width: 1, norm: batch}",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(small, "network: {channels: [4], hidden: [16]}", "network: "+network, 1)
			if name == "wide_resnet" {
				text = strings.Replace(text, "steps: 40", "steps: 6", 1)
			}
			text = text[:strings.Index(text, "  export:")]
			var losses [2][]outputs.Training
			for i, engine := range []string{"gorgonia", "onnxruntime"} {
				run := mustExecute(t, t.TempDir(), strings.Replace(text, "train: {steps", "train: {engine: "+engine+", steps", 1))
				losses[i] = readTable[outputs.Training](t, run, "train", "training")
			}
			if len(losses[0]) != len(losses[1]) || len(losses[0]) == 0 {
				t.Fatalf("%d and %d steps", len(losses[0]), len(losses[1]))
			}
			for i, a := range losses[0] {
				b := losses[1][i]
				if d := math.Abs(*a.Loss - *b.Loss); d > 1e-3*math.Max(1, math.Abs(*a.Loss)) {
					t.Fatalf("step %d: loss %v with gorgonia, %v with onnxruntime", a.Step, *a.Loss, *b.Loss)
				}
			}
		})
	}
}

// MNIST by the recipe for 28x28 pictures, for as many steps as the two engines stay together to the last digits shown.
func TestEnginesTrainAlikeOnMNIST(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t), "mnist")
	if testing.Short() {
		t.Skip("two trainings of 100 steps")
	}
	text := `version: 1
name: t
seed: 1
runtime: {provider: cpu, threads: 2}
data:
  train: {source: idx, images: DIR/train-images-idx3-ubyte.gz, labels: DIR/train-labels-idx1-ubyte.gz, num_classes: 10, limit: 6400}
stages:
  train:
    engine: ENGINE
    validate: ""
    steps: 100
    network: {channels: [16, 32, 64, 64], kernels: [5, 3, 3, 3], hidden: [64]}
    one_batch: true
    data_noise: 0.03
    optimizer: {lr: 0.0005}
    sampler: {step_size: 10, grad_clip: 0.03, noise_std: 0.005}
`
	var losses [2][]outputs.Training
	for i, engine := range []string{"gorgonia", "onnxruntime"} {
		run := mustExecute(t, t.TempDir(), strings.NewReplacer("DIR", dir, "ENGINE", engine).Replace(text))
		losses[i] = readTable[outputs.Training](t, run, "train", "training")
	}
	worst := 0.0
	for i, a := range losses[0] {
		worst = math.Max(worst, math.Abs(*a.Loss-*losses[1][i].Loss))
	}
	t.Logf("largest difference of the losses of 100 steps: %.2g", worst)
	if !(worst < 1e-4) {
		t.Errorf("the losses of the two engines are %v apart within 100 steps", worst)
	}
}

// Starting from the weights of a run, with no step that changes them, ends with these weights; whatever the file calls
// them, and with dense layers as PyTorch keeps them.
func TestInit(t *testing.T) {
	run := mustExecute(t, t.TempDir(), small[:strings.Index(small, "  export:")])
	want := trained(t, run)
	still := func(keys string) string {
		text := strings.Replace(small, "optimizer: {lr: 0.01, warmup_steps: 5}", "optimizer: {lr: 1e-9, warmup_steps: 40, name: sgd, momentum: 0, clip_norm: 0.001}, "+keys, 1)
		return text[:strings.Index(text, "  export:")]
	}
	foreign := want.Clone()
	for i, p := range foreign {
		if len(p.Shape) == 2 {
			foreign[i] = transposed(p)
		}
		foreign[i].Name = strings.Replace(p.Name, "conv1.", "features.0.", 1)
	}
	for name, c := range map[string]struct {
		file model.Params
		keys string
	}{
		"jempipe": {want, "init: start.safetensors"},
		"pytorch": {foreign, "init: start.safetensors, init_layout: pytorch, init_names: {conv1.weight: features.0.weight, conv1.bias: features.0.bias}"},
	} {
		dir := t.TempDir()
		if err := writeSafetensors(filepath.Join(dir, "start.safetensors"), c.file, nil); err != nil {
			t.Fatal(err)
		}
		for i, p := range trained(t, mustExecute(t, dir, still(c.keys))) {
			for j, v := range p.Data {
				if math.Abs(float64(v-want[i].Data[j])) > 1e-6 {
					t.Fatalf("%s: %s[%d] is %v, the file has %v", name, p.Name, j, v, want[i].Data[j])
				}
			}
		}
	}
	for says, c := range map[string]struct {
		file model.Params
		keys string
	}{
		"no tensor conv1.weight":       {foreign, "init: start.safetensors"},
		"parameter dense1.weight want": {foreign, "init: start.safetensors, init_names: {conv1.weight: features.0.weight, conv1.bias: features.0.bias}"},
		"has no parameter conv9":       {want, "init: start.safetensors, init_names: {conv9: a}"},
		"no file in init":              {want, "init_names: {conv1.weight: a}"},
	} {
		dir := t.TempDir()
		if err := writeSafetensors(filepath.Join(dir, "start.safetensors"), c.file, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := execute(t, dir, still(c.keys)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that says %q", err, says)
		}
	}
	if _, err := execute(t, t.TempDir(), still("init: missing.safetensors")); fault.ExitCode(err) < 3 {
		t.Errorf("a missing file: %v", err)
	}
}

func TestSelectNeedsValidation(t *testing.T) {
	text := strings.Replace(small, "train: {steps", `train: {select: best_nll, validate: "", steps`, 1)
	if _, err := execute(t, t.TempDir(), text); fault.ExitCode(err) != 3 || !strings.Contains(err.Error(), "train.select") {
		t.Errorf("error %v", err)
	}
}

// Pictures are of all chains of a step, square, and magnified where they are small.
func TestPictures(t *testing.T) {
	for _, c := range []struct {
		n    int
		text []int
		w, h int
	}{{16, []int{1, 8, 8}, 4*33 - 1, 4*33 - 1}, {5, []int{3, 40, 30}, 3*31 - 1, 2*41 - 1}, {1, []int{2, 4, 4}, 32, 32}} {
		path := filepath.Join(t.TempDir(), "samples", "a.png")
		x := make([]float32, c.n*model.Size(c.text))
		x[0] = 5 // beyond the range
		if err := writeGrid(path, x, c.text, -1, 1); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(f)
		f.Close()
		if err != nil || img.Bounds().Dx() != c.w || img.Bounds().Dy() != c.h {
			t.Errorf("%d states of %v: %v, picture %v, want %dx%d", c.n, c.text, err, img.Bounds(), c.w, c.h)
		}
		if r, _, _, _ := img.At(0, 0).RGBA(); r != 0xffff {
			t.Errorf("a value beyond the range is %#x", r)
		}
		if r, _, _, _ := img.At(c.w-1, 0).RGBA(); c.n == 16 && r>>8 != 128 {
			t.Errorf("0 in [-1,1] is %d", r>>8)
		}
	}
}

// All objectives and the less common settings train, export, and leave a table whose terms are those of the objective.
func TestObjectivesThroughTheStage(t *testing.T) {
	for name, c := range map[string]struct {
		keys     string
		px, pxy  bool
		labelled bool
	}{
		"conditional": {"objective: conditional, ", false, true, true},
		"density":     {"objective: density, ", true, false, false},
		"settings":    {"ema: 0.9, spectral_norm: true, accumulate: 2, select: best_nll, augment: {shift: 1}, ", true, false, true},
		"adamw":       {"engine: onnxruntime, objective: jem, loss: {p_x_y: 0.1, label_smoothing: 0.1}, ", true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(small, "train: {steps", "train: {"+c.keys+"steps", 1)
			if name == "adamw" {
				text = strings.Replace(text, "optimizer: {lr", "optimizer: {name: adamw, weight_decay: 0.01, schedule: cosine, lr", 1)
			}
			run := mustExecute(t, t.TempDir(), text)
			rows := readTable[outputs.Training](t, run, "train", "training")
			last := rows[len(rows)-1]
			if (last.LossPX != nil) != c.px || (last.LossPXY != nil) != c.pxy || (last.Accuracy != nil) != c.labelled || last.Gap == nil {
				t.Errorf("last step: p(x) %v, p(x,y) %v, accuracy %v, gap %v", last.LossPX, last.LossPXY, last.Accuracy, last.Gap)
			}
		})
	}
}
