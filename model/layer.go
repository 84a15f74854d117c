package model

// LayerKind names what a layer does.
type LayerKind string

// The kinds of layers, with the shapes of a batch of N samples before and after.
const (
	Conv     LayerKind = "conv"     // 2-D convolution: [N,C,H,W] to [N,Out,H',W'], H' = (H + 2 Pad - Kernel) / Stride + 1 rounded down
	Dense    LayerKind = "dense"    // x W + b: [N,D] to [N,Out]
	Flatten  LayerKind = "flatten"  // [N,C,H,W] to [N,C*H*W], row-major
	Act      LayerKind = "act"      // element-wise activation
	Pool     LayerKind = "pool"     // largest value or mean of each window of a channel: [N,C,H,W] to [N,C,H',W'], as conv; global to [N,C,1,1]
	Norm     LayerKind = "norm"     // normalisation, the shape stays
	Residual LayerKind = "residual" // Body(x) + Shortcut(x), or Body(x) + x without a shortcut (He et al. 2016, eq. 1)
)

// LayerKinds lists every kind, in the order of the documentation.
var LayerKinds = []LayerKind{Conv, Dense, Flatten, Act, Pool, Norm, Residual}

// Activation names an element-wise function.
type Activation string

// The activations.
const (
	SiLU      Activation = "silu"       // x * sigmoid(x) (Elfwing, Uchibe and Doya 2017); also known as Swish
	ReLU      Activation = "relu"       // max(x, 0)
	LeakyReLU Activation = "leaky_relu" // x for x > 0, else 0.2 x, the slope of the JEM authors
	Tanh      Activation = "tanh"
	Softplus  Activation = "softplus" // log(1 + exp(x))
	ELU       Activation = "elu"      // x for x > 0, else exp(x) - 1 (Clevert, Unterthiner and Hochreiter 2016, eq. 16, alpha 1)
	GELU      Activation = "gelu"     // x * (1 + erf(x / sqrt 2)) / 2 (Hendrycks and Gimpel 2016, section 2), exact
)

// Activations lists every activation, in the order of the documentation.
var Activations = []Activation{SiLU, ReLU, LeakyReLU, Tanh, Softplus, ELU, GELU}

// LeakySlope is the slope of LeakyReLU for negative inputs.
const LeakySlope = 0.2

// PoolKind names how a window becomes one value.
type PoolKind string

// The kinds of pooling.
const (
	MaxPool    PoolKind = "max"    // the largest value; padding never wins
	AvgPool    PoolKind = "avg"    // the mean, in which padding counts as zeros, as in PyTorch
	GlobalPool PoolKind = "global" // the mean over all positions of a channel; no kernel, stride or padding
)

// Pools lists every kind of pooling, in the order of the documentation.
var Pools = []PoolKind{MaxPool, AvgPool, GlobalPool}

// NormKind names the values that share a mean and a variance. Each gives (x - mean) / sqrt(variance + NormEpsilon) times
// a weight plus a bias, one of each a channel, or a feature of a vector; the variance is the biased one.
type NormKind string

// The kinds of normalisation.
const (
	// BatchNorm is over the samples and positions of a channel (Ioffe and Szegedy 2015, algorithm 1). Training takes the
	// statistics of each group of rows of a batch by itself and averages them, with NormMomentum and the unbiased
	// variance, into running ones, which everything else uses: chains, evaluation and exported graphs.
	BatchNorm NormKind = "batch"
	// GroupNorm is over the positions of Channels/Groups channels in a row of one sample (Wu and He 2018, eq. 7).
	GroupNorm NormKind = "group"
	// InstanceNorm is over the positions of one channel of one sample (Ulyanov, Vedaldi and Lempitsky 2016, eq. 3).
	InstanceNorm NormKind = "instance"
	// LayerNorm is over all channels and positions of one sample (Ba, Kiros and Hinton 2016, eq. 3), that is GroupNorm
	// with one group, as the JEM authors take it.
	LayerNorm NormKind = "layer"
)

// Norms lists every kind of normalisation, in the order of the documentation.
var Norms = []NormKind{BatchNorm, GroupNorm, InstanceNorm, LayerNorm}

// The constants of normalisations are the defaults of PyTorch.
const (
	NormEpsilon  = 1e-5 // added to a variance
	NormMomentum = 0.1  // share of new statistics in the running ones
)

// Layer is one layer. Fields that its kind does not use are zero.
type Layer struct {
	Kind     LayerKind  `json:"kind"`
	Name     string     `json:"name"`               // unique in its list; with those of the blocks around it the prefix of its parameters
	Out      int        `json:"out,omitempty"`      // conv: output channels; dense: output width
	Kernel   int        `json:"kernel,omitempty"`   // conv, pool: side of the square kernel
	Stride   int        `json:"stride,omitempty"`   // conv, pool: step in both directions
	Pad      int        `json:"pad,omitempty"`      // conv, pool: zeros on each side; of a pool at most half the kernel
	NoBias   bool       `json:"no_bias,omitempty"`  // conv, dense: without the bias
	Func     Activation `json:"func,omitempty"`     // act: which
	Pool     PoolKind   `json:"pool,omitempty"`     // pool: which
	Norm     NormKind   `json:"norm,omitempty"`     // norm: which
	Groups   int        `json:"groups,omitempty"`   // norm group: number of groups, a divisor of the channels
	Body     []Layer    `json:"body,omitempty"`     // residual: applied in order
	Shortcut []Layer    `json:"shortcut,omitempty"` // residual: applied in order to the same input; empty for the input itself
}

// NormGroups is the number of groups of channels that a normalisation of one sample takes statistics of, for an input
// of so many channels: the channels themselves for InstanceNorm, 1 for LayerNorm.
func (l Layer) NormGroups(channels int) int {
	switch l.Norm {
	case InstanceNorm:
		return channels
	case LayerNorm:
		return 1
	}
	return l.Groups
}
