package stages

import (
	"github.com/jempipe/jempipe/model"
)

// Network is the architecture of a model that jempipe trains.
type Network struct {
	Arch       string `yaml:"arch" enum:"convnet|mlp" default:"convnet" doc:"convnet: square convolutions, flatten, dense layers; mlp: dense layers alone."`
	Channels   []int  `yaml:"channels" min:"1" default:"[16, 32, 64]" doc:"convnet: output channels of each convolution."`
	Kernels    []int  `yaml:"kernels" min:"1" default:"[3]" doc:"convnet: side of each square kernel, or one for all; zero padding is half of it."`
	Strides    []int  `yaml:"strides" min:"1" default:"[2]" doc:"convnet: stride of each convolution, or one for all."`
	Hidden     []int  `yaml:"hidden" min:"1" default:"[64]" doc:"Widths of the dense layers before the logits."`
	Activation string `yaml:"activation" enum:"silu|relu|leaky_relu|tanh|softplus" default:"silu" doc:"Activation after each layer but the last. Smooth ones keep the chains stable; the paper: leaky_relu with slope 0.2."`
}

func defaultNetwork() Network {
	return Network{Arch: "convnet", Channels: []int{16, 32, 64}, Kernels: []int{3}, Strides: []int{2}, Hidden: []int{64}, Activation: "silu"}
}

// build gives the architecture for an input shape.
func (n Network) build(input []int, classes int) (model.Arch, error) {
	if n.Arch == "mlp" {
		return model.MLP(input, classes, n.Hidden, model.Activation(n.Activation))
	}
	return model.Convnet(input, classes, n.Channels, n.Kernels, n.Strides, n.Hidden, model.Activation(n.Activation))
}
