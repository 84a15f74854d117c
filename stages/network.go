package stages

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/model"
)

// Network is the architecture of a model that jempipe trains.
type Network struct {
	Arch       string        `yaml:"arch" enum:"convnet|mlp|wide_resnet|layers" default:"convnet" doc:"convnet: square convolutions, flatten, dense layers; mlp: dense layers alone; wide_resnet: the residual network of the paper; layers: those of the key layers."`
	Channels   []int         `yaml:"channels" min:"1" default:"[16, 32, 64]" doc:"convnet: output channels of each convolution."`
	Kernels    []int         `yaml:"kernels" min:"1" default:"[3]" doc:"convnet: side of each square kernel, or one for all; zero padding is half of it."`
	Strides    []int         `yaml:"strides" min:"1" default:"[2]" doc:"convnet: stride of each convolution, or one for all."`
	Hidden     []int         `yaml:"hidden" min:"1" default:"[64]" doc:"convnet, mlp: widths of the dense layers before the logits."`
	Depth      int           `yaml:"depth" min:"10" default:"28" doc:"wide_resnet: 6n+4 for n blocks in each of three stages: 10, 16, 22, 28 and so on."`
	Width      int           `yaml:"width" min:"1" default:"10" doc:"wide_resnet: factor of the 16, 32 and 64 channels of the stages. Depth 28 and width 10 are the paper's: 36.5 million parameters; 10 and 2 train on two cores."`
	Activation string        `yaml:"activation" enum:"silu|relu|leaky_relu|tanh|softplus|elu|gelu" default:"silu" doc:"Activation after each layer but the last. Smooth ones keep the chains stable; the paper: leaky_relu with slope 0.2."`
	Norm       string        `yaml:"norm" enum:"none|batch|group|instance|layer" default:"none" doc:"Normalisation before each activation: in a convnet behind convolutions, in an mlp behind dense layers. batch: over each real batch and each batch of samples by itself in training, running statistics elsewhere; it makes a joint model hard to train. The others are of one sample: group over groups of channels, instance over each channel, layer over all."`
	NormGroups int           `yaml:"norm_groups" min:"1" default:"8" doc:"norm group: number of groups; it must divide the channels."`
	Init       string        `yaml:"init" enum:"fan_in_uniform|he_normal|he_uniform|xavier_uniform|xavier_normal|orthogonal" default:"fan_in_uniform" doc:"First weights. fan_in_uniform: uniform up to 1/sqrt(fan_in), biases too, the default of PyTorch, which the paper has. he: variance 2/fan_in (He et al. 2015); xavier: variance 2/(fan_in + fan_out) (Glorot and Bengio 2010); orthogonal: orthonormal rows or columns (Saxe et al. 2014); biases 0. Weights of normalisations are 1, their biases 0."`
	Layers     []NetworkNode `yaml:"layers" doc:"layers: the layers in order, from the sample to the logits. A layer with no other key may be given as its kind alone, such as flatten."`
}

// NetworkNode is one layer of a list in the configuration.
type NetworkNode struct {
	Kind     string        `yaml:"kind" required:"true" scalar:"true" enum:"conv|dense|flatten|act|pool|norm|residual" doc:"What the layer does. residual adds its body to its shortcut."`
	Name     string        `yaml:"name" doc:"Name of the layer, and of its parameters. Default: the kind and a number, such as conv1, counted in each list; in a shortcut with shortcut_ in front."`
	Out      int           `yaml:"out" min:"1" doc:"conv: output channels. dense: output width; of the last layer by default the number of classes."`
	Kernel   int           `yaml:"kernel" min:"1" doc:"conv, pool: side of the square window. Default: conv 3, pool 2."`
	Stride   int           `yaml:"stride" min:"1" doc:"conv, pool: step of the window. Default: conv 1, pool the kernel."`
	Pad      *int          `yaml:"pad" min:"0" doc:"conv, pool: zeros on each side; in a pool they count for avg and never win for max. Default: conv half the kernel, rounded down; pool 0."`
	Bias     *bool         `yaml:"bias" default:"true" doc:"conv, dense: with a bias."`
	Func     string        `yaml:"func" enum:"silu|relu|leaky_relu|tanh|softplus|elu|gelu" doc:"act: which. Default: network.activation."`
	Pool     string        `yaml:"pool" enum:"max|avg|global" doc:"pool: which; global is the mean over all positions, and takes no kernel. Default: max."`
	Norm     string        `yaml:"norm" enum:"batch|group|instance|layer" doc:"norm: which. Default: network.norm."`
	Groups   int           `yaml:"groups" min:"1" doc:"norm group: number of groups. Default: network.norm_groups."`
	Body     []NetworkNode `yaml:"body" doc:"residual: layers in order."`
	Shortcut []NetworkNode `yaml:"shortcut" doc:"residual: layers in order, such as a conv of kernel 1 where the body changes the shape. Default: none, the input itself."`
}

func defaultNetwork() Network {
	return Network{Arch: "convnet", Channels: []int{16, 32, 64}, Kernels: []int{3}, Strides: []int{2}, Hidden: []int{64}, Depth: 28, Width: 10,
		Activation: "silu", Norm: "none", NormGroups: 8, Init: string(model.FanInUniform)}
}

// build gives the architecture for an input shape.
func (n Network) build(input []int, classes int) (model.Arch, error) {
	style := model.Style{Act: model.Activation(n.Activation), Norm: model.NormKind(n.Norm), Groups: n.NormGroups}
	if n.Norm == "none" {
		style.Norm = model.NoNorm
	}
	switch n.Arch {
	case "mlp":
		return model.MLP(input, classes, n.Hidden, style)
	case "wide_resnet":
		return model.WideResNet(input, classes, n.Depth, n.Width, style)
	case "layers":
		a := model.Arch{Name: "layers", Input: input, Classes: classes, Layers: n.list(n.Layers, "")}
		if i := len(a.Layers) - 1; i >= 0 && a.Layers[i].Kind == model.Dense && a.Layers[i].Out == 0 {
			a.Layers[i].Out = classes
		}
		_, err := a.Shapes()
		return a, err
	}
	return model.Convnet(input, classes, n.Channels, n.Kernels, n.Strides, n.Hidden, style)
}

// initializer is how the first weights are drawn.
func (n Network) initializer() model.Initializer { return model.Initializer(n.Init) }

// list gives the layers of a list, with the defaults of their kinds. Names that are made up begin with prefix.
func (n Network) list(nodes []NetworkNode, prefix string) []model.Layer {
	var layers []model.Layer
	count := map[string]int{}
	for _, node := range nodes {
		l := n.layer(node)
		if count[node.Kind]++; l.Name == "" {
			l.Name = fmt.Sprintf("%s%s%d", prefix, node.Kind, count[node.Kind])
		}
		layers = append(layers, l)
	}
	return layers
}

func (n Network) layer(node NetworkNode) model.Layer {
	l := model.Layer{Kind: model.LayerKind(node.Kind), Name: node.Name}
	switch l.Kind {
	case model.Conv:
		l.Out, l.Kernel, l.Stride = node.Out, or(node.Kernel, 3), or(node.Stride, 1)
		l.Pad = pointed(node.Pad, l.Kernel/2)
		l.NoBias = !pointed(node.Bias, true)
	case model.Dense:
		l.Out, l.NoBias = node.Out, !pointed(node.Bias, true)
	case model.Act:
		l.Func = model.Activation(or(node.Func, n.Activation))
	case model.Pool:
		if l.Pool = model.PoolKind(or(node.Pool, string(model.MaxPool))); l.Pool != model.GlobalPool {
			l.Kernel = or(node.Kernel, 2)
			l.Stride, l.Pad = or(node.Stride, l.Kernel), pointed(node.Pad, 0)
		}
	case model.Norm:
		if l.Norm = model.NormKind(or(node.Norm, n.Norm)); l.Norm == model.GroupNorm {
			l.Groups = or(node.Groups, n.NormGroups)
		}
	case model.Residual:
		l.Body, l.Shortcut = n.list(node.Body, ""), n.list(node.Shortcut, "shortcut_") // one name space
	}
	return l
}

// or is v, or the default where v is absent.
func or[T comparable](v, def T) T {
	var absent T
	if v == absent {
		return def
	}
	return v
}

// pointed is what p points to, or the default.
func pointed[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

// nodeKeys are the keys that each kind of layer has beside kind and name.
var nodeKeys = map[string][]string{
	"conv":     {"out", "kernel", "stride", "pad", "bias"},
	"dense":    {"out", "bias"},
	"act":      {"func"},
	"pool":     {"pool", "kernel", "stride", "pad"},
	"norm":     {"norm", "groups"},
	"flatten":  nil,
	"residual": {"body", "shortcut"},
}

// keyLint is what pipeline.LintContext offers to find misplaced keys.
type keyLint interface {
	Has(key string) bool
	Problem(key, format string, args ...any)
}

// lint reports keys that do not go together. The network stands under the key network.
func (n Network) lint(lc keyLint) {
	const path = "network"
	switch given := len(n.Layers) > 0; {
	case n.Arch == "layers" && !given:
		lc.Problem(path+".layers", "arch layers needs a list of layers")
	case n.Arch != "layers" && given:
		lc.Problem(path+".layers", "only arch layers takes a list of layers, arch is %s", n.Arch)
	}
	if n.Arch == "wide_resnet" && (n.Depth-4)%6 != 0 {
		below := max(10, n.Depth-(n.Depth-4)%6)
		lc.Problem(path+".depth", "%d is not 6n+4: take %d or %d", n.Depth, below, below+6)
	}
	n.lintNodes(lc, n.Layers, path+".layers")
}

func (n Network) lintNodes(lc keyLint, nodes []NetworkNode, path string) {
	for i, node := range nodes {
		at := fmt.Sprintf("%s[%d]", path, i)
		own, known := nodeKeys[node.Kind]
		if !known {
			continue // the decoder has told
		}
		for _, key := range []string{"out", "kernel", "stride", "pad", "bias", "func", "pool", "norm", "groups", "body", "shortcut"} {
			if !slices.Contains(own, key) && lc.Has(at+"."+key) {
				lc.Problem(at+"."+key, "a layer of kind %s has no %s", node.Kind, key)
			}
		}
		last := i == len(nodes)-1
		switch {
		case node.Kind == "conv" && node.Out == 0, node.Kind == "dense" && node.Out == 0 && (!last || path != "network.layers"):
			lc.Problem(at, "a layer of kind %s needs out", node.Kind)
		case node.Kind == "norm" && node.Norm == "" && n.Norm == "none":
			lc.Problem(at, "a layer of kind norm needs norm, since network.norm is none")
		case node.Kind == "residual" && len(node.Body) == 0:
			lc.Problem(at, "a layer of kind residual needs a body")
		}
		n.lintNodes(lc, node.Body, at+".body")
		n.lintNodes(lc, node.Shortcut, at+".shortcut")
	}
}
