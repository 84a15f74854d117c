// Package peers holds what is measured side by side: JEM training steps and SGLD chains of this program and of
// PyTorch, for the same networks with the same weights.
package peers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
)

// Net is a network of the benchmarks.
type Net struct {
	Name  string
	Large bool // too large to be measured on a CPU: left out there unless it is named
	Build func() (model.Arch, error)
}

// Nets are the networks, the smallest first.
var Nets = []Net{
	{Name: "convnet-silu", Build: func() (model.Arch, error) { return small(), nil }},
	{Name: "convnet-leaky", Build: func() (model.Arch, error) {
		return model.Convnet([]int{1, 28, 28}, 10, []int{32, 64}, []int{3}, []int{2}, []int{128}, model.Style{Act: model.LeakyReLU})
	}},
	{Name: "wrn-10-2", Build: func() (model.Arch, error) { return wide(10, 2) }},
	{Name: "wrn-28-10", Large: true, Build: func() (model.Arch, error) { return wide(28, 10) }},
}

// small is the network of the recommended recipe for 28x28 pictures: the convolutions of the tutorial on deep energy
// models of the University of Amsterdam (Lippe, UvA Deep Learning Tutorial 8), with ten logits.
func small() model.Arch {
	a := model.Arch{Name: "convnet", Input: []int{1, 28, 28}, Classes: 10}
	add := func(l model.Layer) {
		a.Layers = append(a.Layers, l, model.Layer{Kind: model.Act, Name: l.Name + ".act", Func: model.SiLU})
	}
	add(model.Layer{Kind: model.Conv, Name: "conv1", Out: 16, Kernel: 5, Stride: 2, Pad: 4})
	for i, out := range []int{32, 64, 64} {
		add(model.Layer{Kind: model.Conv, Name: fmt.Sprintf("conv%d", i+2), Out: out, Kernel: 3, Stride: 2, Pad: 1})
	}
	a.Layers = append(a.Layers, model.Layer{Kind: model.Flatten, Name: "flatten"})
	add(model.Layer{Kind: model.Dense, Name: "dense1", Out: 64})
	a.Layers = append(a.Layers, model.Layer{Kind: model.Dense, Name: "logits", Out: a.Classes})
	return a
}

// wide is a wide residual network for 32x32 colour pictures as the JEM authors have it, without normalisation.
func wide(depth, width int) (model.Arch, error) {
	return model.WideResNet([]int{3, 32, 32}, 10, depth, width, model.Style{Act: model.LeakyReLU})
}

// Find gives the networks of a comma-separated list of names, and all for an empty list, the large ones only if they
// are wanted.
func Find(names string, large bool) ([]Net, error) {
	if names == "" {
		return slices.DeleteFunc(slices.Clone(Nets), func(n Net) bool { return n.Large && !large }), nil
	}
	var found []Net
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(Nets, func(n Net) bool { return n.Name == name })
		if at < 0 {
			known := make([]string, len(Nets))
			for i, net := range Nets {
				known[i] = net.Name
			}
			return nil, fault.New(fault.Usage, "-nets", "network %q is not known; wanted some of %s", name, strings.Join(known, ", "))
		}
		found = append(found, Nets[at])
	}
	return found, nil
}

// Init builds the network and draws its weights. Equal names give equal weights.
func (n Net) Init() (model.Arch, model.Params, error) {
	arch, err := n.Build()
	if err != nil {
		return arch, nil, fmt.Errorf("network %s: %w", n.Name, err)
	}
	params, err := arch.Init(func(i int) *rand.Rand { return keyed.New(1, "bench weights").At(uint64(i), 0).Rand })
	return arch, params, err
}

// Samples are n rows of independent numbers, uniform in [-1,1): the same at every call.
func Samples(n, dim int) []float32 {
	rng := keyed.New(1, "bench samples").At(0, 0)
	x := make([]float32, n*dim)
	for i := range x {
		x[i] = float32(2*rng.Float64() - 1)
	}
	return x
}
