package lower

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

func wideResNet(t testing.TB, n model.NormKind) model.Arch {
	t.Helper()
	a, err := model.WideResNet([]int{3, 8, 8}, 5, 10, 1, model.Style{Act: model.LeakyReLU, Norm: n, Groups: 4})
	must(t, err)
	return a
}

// Features are what the last dense layer takes, whatever lies before it.
func TestFeaturesOfWideResNets(t *testing.T) {
	for _, n := range append(slices.Clone(model.Norms), model.NoNorm) {
		a := wideResNet(t, n)
		p := params(t, a)
		m, err := Classifier(a, p, Options{})
		must(t, err)
		const rows = 3
		got := run(t, load(t, m), tensor(t, []int{rows, 3, 8, 8}, samples(rows, a.Input, 4)))
		w, _ := p.Lookup("logits.weight")
		b, _ := p.Lookup("logits.bias")
		width := w.Shape[0]
		if len(got[OutputFeatures]) != rows*width {
			t.Fatalf("%d features, want %d", len(got[OutputFeatures]), rows*width)
		}
		for r := range rows {
			z := wide(b.Data)
			for k := range z {
				for j, f := range got[OutputFeatures][r*width : (r+1)*width] {
					z[k] += float64(f) * float64(w.Data[j*a.Classes+k])
				}
			}
			near(t, "logits of "+string(n), got[OutputLogits][r*a.Classes:(r+1)*a.Classes], z, 1e-4)
		}
	}
}

// The score is the mean of the class scores under the softmax, since logsumexp has it as its gradient.
func TestClassScoresOfWideResNet(t *testing.T) {
	a := wideResNet(t, model.GroupNorm)
	p := params(t, a)
	class, err := ClassScore(a, p, Options{})
	must(t, err)
	x := samples(1, a.Input, 4)
	k, width := a.Classes, a.Size()
	target := make([]float32, k*k)
	for i := range k {
		target[i*k+i] = 1
	}
	got := run(t, load(t, class), tensor(t, []int{k, 3, 8, 8}, slices.Repeat(x, k)), tensor(t, []int{k, k}, target))
	z := wide(got[OutputLogits][:k])
	near(t, "log densities", got[OutputLogDensity], z, 1e-6)
	want := make([]float64, width)
	for i := range k {
		for j := range want {
			want[j] += math.Exp(z[i]-logSumExpOf(z)) * float64(got[OutputScore][i*width+j])
		}
	}
	score, err := Score(a, p, Options{})
	must(t, err)
	near(t, "score", run(t, load(t, score), tensor(t, []int{1, 3, 8, 8}, x))[OutputScore], want, 1e-5)
}

// In training, running statistics are no inputs, and every batch normalisation puts out what it found.
func TestSignatureInTraining(t *testing.T) {
	a := wideResNet(t, model.BatchNorm)
	p := params(t, a)
	stats, err := BatchStatistics(a, 2)
	must(t, err)
	if len(stats) != 7 || stats[0].Layer != "block1_1.norm1" || stats[0].Count != 2*8*8 || stats[6].Layer != "norm" || stats[6].Channels != 64 || stats[6].Count != 2*2*2 {
		t.Errorf("statistics %+v", stats)
	}
	for name, build := range map[string]func(model.Arch, model.Params, Options) (*onnxpb.ModelProto, error){"classifier": Classifier, "score": Score, "class score": ClassScore} {
		m, err := build(a, nil, Options{ParamsAsInputs: true, BatchGroup: 2})
		must(t, err)
		for _, v := range m.Graph.Input {
			if strings.Contains(v.GetName(), "running") {
				t.Errorf("%s: input %s", name, v.GetName())
			}
		}
		var outputs []string
		for _, v := range m.Graph.Output {
			outputs = append(outputs, v.GetName())
		}
		for _, s := range stats {
			if !slices.Contains(outputs, s.Mean) || !slices.Contains(outputs, s.Variance) {
				t.Errorf("%s: outputs %v lack those of %s", name, outputs, s.Layer)
			}
		}
		m, err = build(a, p, Options{BatchGroup: 2})
		must(t, err)
		if _, err := ir.Marshal(m); err != nil {
			t.Error(err)
		}
		load(t, m)
	}
	m, err := Classifier(a, nil, Options{ParamsAsInputs: true})
	must(t, err)
	if n := len(m.Graph.Input); n != 1+len(p) {
		t.Errorf("outside training %d inputs, want %d", n, 1+len(p))
	}
}

func TestStatisticsThatCannotBe(t *testing.T) {
	vector := model.Arch{Name: "v", Input: []int{3}, Classes: 3, Layers: []model.Layer{{Kind: model.Norm, Name: "n", Norm: model.BatchNorm}}}
	taken := vector
	taken.Layers = []model.Layer{{Kind: model.Norm, Name: "x", Norm: model.BatchNorm}, {Kind: model.Norm, Name: "x.batch_mean", Norm: model.BatchNorm}}
	for want, c := range map[string]struct {
		arch  model.Arch
		group int
	}{
		"one row of one position has no variance": {vector, 1},
		"groups of -1 rows":                       {vector, -1},
	} {
		if _, err := Classifier(c.arch, params(t, c.arch), Options{BatchGroup: c.group}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	m, err := Classifier(taken, params(t, taken), Options{BatchGroup: 2})
	must(t, err)
	load(t, m)
}
