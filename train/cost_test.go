package train

import (
	"math"
	"testing"

	"github.com/jempipe/jempipe/model"
)

func mustArch(t *testing.T) func(model.Arch, error) model.Arch {
	return func(a model.Arch, err error) model.Arch {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
}

func TestWorkCountsProducts(t *testing.T) {
	must := mustArch(t)
	silu, leaky := model.Style{Act: model.SiLU}, model.Style{Act: model.LeakyReLU}
	for name, c := range map[string]struct {
		arch model.Arch
		want Work
	}{
		"mlp": {must(model.MLP([]int{20}, 5, []int{30}, silu)), Work{Dense: 20*30 + 30*5, First: 600, Costly: 30}},
		"convnet": { // 3x8x6 to 4x4x3 by 3x3, to 12 units
			must(model.Convnet([]int{3, 8, 6}, 7, []int{4}, []int{3}, []int{2}, nil, leaky)),
			Work{Conv: 4 * 4 * 3 * 27, Dense: 48 * 7, First: 4 * 4 * 3 * 27, Cheap: 48}},
		"residual": {model.Arch{Name: "residual", Input: []int{2, 4, 4}, Classes: 3, Layers: []model.Layer{
			{Kind: model.Residual, Name: "block",
				Body: []model.Layer{
					{Kind: model.Norm, Name: "norm", Norm: model.LayerNorm},
					{Kind: model.Conv, Name: "conv", Out: 5, Kernel: 3, Stride: 1, Pad: 1}},
				Shortcut: []model.Layer{{Kind: model.Conv, Name: "short", Out: 5, Kernel: 1, Stride: 1}}},
			{Kind: model.Pool, Name: "pool", Pool: model.GlobalPool},
			{Kind: model.Flatten, Name: "flat"},
			{Kind: model.Dense, Name: "logits", Out: 3},
		}}, Work{Conv: 80*18 + 80*2, Dense: 15, First: 80 * 18, Cheap: 80, Costly: 32}},
	} {
		got, err := WorkOf(c.arch)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	if _, err := WorkOf(model.Arch{Name: "none", Input: []int{2}, Classes: 3}); err == nil {
		t.Error("no error for a network that is none")
	}
}

// TestRatesFitMeasurements compares the expected times with those of docs/performance.md, in microseconds a row.
func TestRatesFitMeasurements(t *testing.T) {
	must := mustArch(t)
	silu, leaky := model.Style{Act: model.SiLU}, model.Style{Act: model.LeakyReLU}
	recipe := must(model.Convnet([]int{1, 28, 28}, 10, []int{16, 32, 64, 64}, []int{5, 3, 3, 3}, []int{2}, []int{64}, silu))
	recipe.Layers[0].Pad = 4
	for name, c := range map[string]struct {
		arch                 model.Arch
		score, ort, gorgonia float64
	}{
		"recipe":  {recipe, 72.9, 152, 629},
		"leaky":   {must(model.Convnet([]int{1, 28, 28}, 10, []int{32, 64}, []int{3}, []int{2}, []int{128}, leaky)), 85.6, 164, 935},
		"wide":    {must(model.WideResNet([]int{3, 32, 32}, 10, 10, 2, leaky)), 3714, 7908, 34212},
		"8x8":     {must(model.Convnet([]int{1, 8, 8}, 10, []int{32, 64}, []int{3}, []int{2}, []int{64}, silu)), 7.65, 17.6, 73.6},
		"mlp":     {must(model.MLP([]int{784}, 10, []int{256, 256}, silu)), 14.2, 23.6, 175},
		"letters": {must(model.MLP([]int{16}, 26, []int{128, 128}, leaky)), 1.82, 3.47, 23.1},
		"relu":    {must(model.Convnet([]int{1, 28, 28}, 10, []int{32, 64, 128}, []int{3}, []int{2}, []int{128}, model.Style{Act: model.ReLU})), 158, 272, 1253},
		"group":   {must(model.WideResNet([]int{3, 16, 16}, 10, 10, 1, model.Style{Act: model.SiLU, Norm: model.GroupNorm, Groups: 4})), 482, 906, 3303},
	} {
		cfg := Default()
		cfg.BatchSize, cfg.Sampler.Steps, cfg.OneBatch = 1, 1, true // one chain step, and the gradient of two rows
		got, err := cfg.StepCost(c.arch)
		if err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string][2]float64{
			"score": {got.Chains.Seconds(), c.score}, "onnxruntime": {got.ONNXRuntime.Seconds() / 2, c.ort}, "gorgonia": {got.Gorgonia.Seconds() / 2, c.gorgonia},
		} {
			if ratio := pair[0] * 1e6 / pair[1]; math.Abs(math.Log(ratio)) > math.Log(1.5) {
				t.Errorf("%s, %s: expected %.3g us, measured %.3g", name, what, pair[0]*1e6, pair[1])
			}
		}
	}
}

func TestStepCostFollowsTheSettings(t *testing.T) {
	a := mustArch(t)(model.Convnet([]int{1, 8, 8}, 10, []int{32, 64}, []int{3}, []int{2}, []int{64}, model.Style{Act: model.SiLU}))
	cost := func(change func(*Config)) StepCost {
		cfg := Default()
		change(&cfg)
		c, err := cfg.StepCost(a)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	base := cost(func(*Config) {})
	if double := cost(func(c *Config) { c.Sampler.Steps *= 2 }); math.Abs(float64(double.Chains)/float64(base.Chains)-2) > 1e-6 || double.Gorgonia != base.Gorgonia {
		t.Errorf("twice the steps cost %+v, once %+v", double, base)
	}
	if one := cost(func(c *Config) { c.OneBatch = true }); math.Abs(float64(one.Gorgonia)/float64(base.Gorgonia)-2./3) > 1e-6 {
		t.Errorf("one batch costs %+v, two %+v", one, base)
	}
	classifier := cost(func(c *Config) { c.Objective = "classifier" })
	if classifier.Chains != 0 || !(classifier.Factor() > base.Factor()) || !(base.Factor() > 1) {
		t.Errorf("factors: classifier %.2f, base %.2f; chains of a classifier %v", classifier.Factor(), base.Factor(), classifier.Chains)
	}
}
