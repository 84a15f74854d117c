package stages

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/pipeline"
)

// withNetwork is the example of the tests with another network, up to the export. Its train stage is in block style, so
// that the network may be.
func withNetwork(network string) string {
	begin := strings.Index(digits, "  train: {steps")
	return digits[:begin] + `  train:
    steps: 10
    eval_every: 5
    batch_size: 16
    optimizer: {lr: 0.01, warmup_steps: 5}
    sampler: {steps: 3, buffer_size: 100}
    network: ` + network + "\n  export: {}\n"
}

// loadNetwork decodes a network as the train stage does.
func loadNetwork(t *testing.T, network string) (Network, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(path, []byte(withNetwork(network)), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := pipeline.Load(path, pipeline.NewRegistry(Kinds()...))
	if err != nil {
		return Network{}, err
	}
	for _, s := range cfg.Stages {
		if train, ok := s.Config.(*Train); ok {
			return train.Network, nil
		}
	}
	t.Fatal("the file has no train stage")
	return Network{}, nil
}

const layersYAML = `
      arch: layers
      activation: gelu
      norm: group
      norm_groups: 2
      layers:
        - {kind: conv, out: 4}
        - norm
        - act
        - kind: residual
          body:
            - {kind: norm, norm: instance}
            - {kind: act, func: elu}
            - {kind: conv, out: 6, kernel: 4, stride: 2, pad: 1, bias: false}
            - kind: residual
              name: inner
              body: [act, {kind: conv, out: 6}]
          shortcut: {kind: conv, out: 6, kernel: 1, stride: 2}
        - pool
        - {kind: pool, pool: avg, kernel: 3, stride: 1, pad: 1}
        - {kind: pool, pool: global}
        - flatten
        - {kind: dense, out: 12, bias: false}
        - {kind: act, func: tanh, name: squash}
        - dense`

func TestLayersFromYAML(t *testing.T) {
	n, err := loadNetwork(t, layersYAML)
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.build([]int{1, 8, 8}, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Layer{
		{Kind: model.Conv, Name: "conv1", Out: 4, Kernel: 3, Stride: 1, Pad: 1},
		{Kind: model.Norm, Name: "norm1", Norm: model.GroupNorm, Groups: 2},
		{Kind: model.Act, Name: "act1", Func: model.GELU},
		{Kind: model.Residual, Name: "residual1", Body: []model.Layer{
			{Kind: model.Norm, Name: "norm1", Norm: model.InstanceNorm},
			{Kind: model.Act, Name: "act1", Func: model.ELU},
			{Kind: model.Conv, Name: "conv1", Out: 6, Kernel: 4, Stride: 2, Pad: 1, NoBias: true},
			{Kind: model.Residual, Name: "inner", Body: []model.Layer{
				{Kind: model.Act, Name: "act1", Func: model.GELU},
				{Kind: model.Conv, Name: "conv1", Out: 6, Kernel: 3, Stride: 1, Pad: 1}}},
		}, Shortcut: []model.Layer{{Kind: model.Conv, Name: "shortcut_conv1", Out: 6, Kernel: 1, Stride: 2}}},
		{Kind: model.Pool, Name: "pool1", Pool: model.MaxPool, Kernel: 2, Stride: 2},
		{Kind: model.Pool, Name: "pool2", Pool: model.AvgPool, Kernel: 3, Stride: 1, Pad: 1},
		{Kind: model.Pool, Name: "pool3", Pool: model.GlobalPool},
		{Kind: model.Flatten, Name: "flatten1"},
		{Kind: model.Dense, Name: "dense1", Out: 12, NoBias: true},
		{Kind: model.Act, Name: "squash", Func: model.Tanh},
		{Kind: model.Dense, Name: "dense2", Out: 10},
	}
	if !reflect.DeepEqual(got.Layers, want) {
		t.Errorf("got  %+v\nwant %+v", got.Layers, want)
	}
}

func TestNetworksFromYAML(t *testing.T) {
	wrn, err := model.WideResNet([]int{1, 8, 8}, 10, 16, 2, model.Style{Act: model.LeakyReLU, Norm: model.GroupNorm, Groups: 4})
	if err != nil {
		t.Fatal(err)
	}
	conv, err := model.Convnet([]int{1, 8, 8}, 10, []int{8}, []int{3}, []int{2}, []int{64}, model.Style{Act: model.SiLU})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]model.Arch{
		"{arch: wide_resnet, depth: 16, width: 2, activation: leaky_relu, norm: group, norm_groups: 4}": wrn,
		"{channels: 8}": conv,
	} {
		n, err := loadNetwork(t, text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.build([]int{1, 8, 8}, 10)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if n.initializer() != model.FanInUniform {
			t.Errorf("initialiser %s by default", n.initializer())
		}
	}
}

func TestMistakesInNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"{arch: layers}":                                            "network.layers: arch layers needs a list of layers",
		"{arch: mlp, layers: [dense]}":                              "network.layers: only arch layers takes a list of layers, arch is mlp",
		"{arch: wide_resnet, depth: 18}":                            "network.depth: 18 is not 6n+4: take 16 or 22",
		"{arch: layers, layers: [dens]}":                            `network.layers[0].kind: "dens" is not one of`,
		"{arch: layers, layers: [{kind: conv}]}":                    "network.layers[0]: a layer of kind conv needs out",
		"{arch: layers, layers: [dense, act]}":                      "network.layers[0]: a layer of kind dense needs out",
		"{arch: layers, layers: [flatten, norm, dense]}":            "network.layers[1]: a layer of kind norm needs norm",
		"{arch: layers, layers: [{kind: flatten, kernel: 2}]}":      "network.layers[0].kernel: a layer of kind flatten has no kernel",
		"{arch: layers, layers: [{kind: act, out: 2}]}":             "network.layers[0].out: a layer of kind act has no out",
		"{arch: layers, layers: [residual]}":                        "network.layers[0]: a layer of kind residual needs a body",
		"{arch: layers, layers: [{kind: residual, body: [dense]}]}": "network.layers[0].body[0]: a layer of kind dense needs out",
		"{init: zeros}":                                             `network.init: "zeros" is not one of`,
		"{norm: batch_norm}":                                        `network.norm: "batch_norm" is not one of`,
	} {
		if _, err := loadNetwork(t, text); fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// Every kind of network trains, and its export passes the comparison of both lowerings and the test of its gradient.
func TestNetworksRun(t *testing.T) {
	for name, network := range map[string]string{
		"wide_resnet": "{arch: wide_resnet, depth: 10, width: 1, init: orthogonal}",
		"batch norm":  "{arch: convnet, channels: [4, 6], strides: [1, 2], hidden: [16], norm: batch, init: he_normal}",
		"layers":      layersYAML,
	} {
		t.Run(name, func(t *testing.T) {
			run := mustExecute(t, t.TempDir(), withNetwork(network))
			for _, file := range []string{"train/models/weights.safetensors", "export/models/score.onnx"} {
				if _, err := os.Stat(filepath.Join(run, file)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
