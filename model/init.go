package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Initializer names how the weights of convolutions and dense layers are drawn. Normalisations begin as the identity:
// weight 1, bias 0, running mean 0, running variance 1.
type Initializer string

// The initialisers. fan_in is the number of inputs that reach an output and fan_out the number of outputs that an input
// reaches. Biases are 0 but for FanInUniform.
const (
	// FanInUniform draws weights and biases uniformly from [-1/sqrt(fan_in), 1/sqrt(fan_in)], PyTorch's default for
	// convolutions and linear layers, which the JEM authors train from (LeCun et al. 1998, section 4.6, gives the scale).
	FanInUniform Initializer = "fan_in_uniform"
	// HeNormal draws from a normal distribution of variance 2/fan_in (He et al. 2015, eq. 10).
	HeNormal Initializer = "he_normal"
	// HeUniform draws uniformly with the same variance.
	HeUniform Initializer = "he_uniform"
	// XavierUniform draws uniformly with variance 2/(fan_in+fan_out) (Glorot and Bengio 2010, eq. 16).
	XavierUniform Initializer = "xavier_uniform"
	// XavierNormal draws from a normal distribution of that variance (Glorot and Bengio 2010, eq. 12).
	XavierNormal Initializer = "xavier_normal"
	// Orthogonal takes a matrix of one row an output with orthonormal rows, or columns where those are fewer, uniformly
	// among all such (Saxe, McClelland and Ganguli 2014, section 3.1).
	Orthogonal Initializer = "orthogonal"
)

// Initializers lists every initialiser, in the order of the documentation.
var Initializers = []Initializer{FanInUniform, HeNormal, HeUniform, XavierUniform, XavierNormal, Orthogonal}

// Init draws every parameter with FanInUniform. stream gives the random stream of parameter i.
func (a Arch) Init(stream func(i int) *rand.Rand) (Params, error) {
	return a.InitWith(FanInUniform, stream)
}

// InitWith draws every parameter. stream gives the random stream of parameter i in the order of Params.
func (a Arch) InitWith(how Initializer, stream func(i int) *rand.Rand) (Params, error) {
	if !slices.Contains(Initializers, how) {
		return nil, fmt.Errorf("model %s: initialiser %q is not one of %v", a.Name, how, Initializers)
	}
	specs, err := a.Params()
	if err != nil {
		return nil, err
	}
	out := make(Params, len(specs))
	for i, s := range specs {
		data := make([]float32, s.Size())
		switch s.Role {
		case RoleWeight:
			how.draw(s, stream(i), data)
		case RoleBias:
			if how == FanInUniform {
				how.draw(s, stream(i), data)
			}
		case RoleScale, RoleVariance:
			for j := range data {
				data[j] = 1
			}
		}
		out[i] = Tensor{Name: s.Name, Shape: s.Shape, Data: data}
	}
	return out, nil
}

// draw fills in a weight or bias.
func (how Initializer) draw(s Param, rng *rand.Rand, data []float32) {
	in, out := float64(s.FanIn), float64(s.FanOut)
	switch how {
	case FanInUniform:
		uniform(rng, 1/math.Sqrt(in), data)
	case HeNormal:
		normal(rng, math.Sqrt(2/in), data)
	case HeUniform:
		uniform(rng, math.Sqrt(6/in), data)
	case XavierUniform:
		uniform(rng, math.Sqrt(6/(in+out)), data)
	case XavierNormal:
		normal(rng, math.Sqrt(2/(in+out)), data)
	case Orthogonal:
		orthogonal(rng, s, data)
	}
}

// uniform draws from [-bound, bound], whose variance is bound^2/3.
func uniform(rng *rand.Rand, bound float64, data []float32) {
	for j := range data {
		data[j] = float32((2*rng.Float64() - 1) * bound)
	}
}

func normal(rng *rand.Rand, std float64, data []float32) {
	for j := range data {
		data[j] = float32(rng.NormFloat64() * std)
	}
}

// orthogonal fills in a matrix of FanIn columns for each output: the Gram-Schmidt basis of vectors of normal numbers,
// which is uniformly distributed.
func orthogonal(rng *rand.Rand, s Param, data []float32) {
	outputs := s.Size() / s.FanIn
	count, size := min(outputs, s.FanIn), max(outputs, s.FanIn)
	basis := make([][]float64, count)
	for i := range basis {
		v := make([]float64, size)
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		for range 2 { // once more for what rounding left
			for _, b := range basis[:i] {
				subtract(v, b, dot(v, b))
			}
		}
		scale := 1 / math.Sqrt(dot(v, v))
		for j := range v {
			v[j] *= scale
		}
		basis[i] = v
	}
	dense := len(s.Shape) == 2 // stored with the inputs first
	for o := range outputs {
		for i := range s.FanIn {
			v := 0.0
			if outputs <= s.FanIn {
				v = basis[o][i]
			} else {
				v = basis[i][o]
			}
			if dense {
				data[i*outputs+o] = float32(v)
			} else {
				data[o*s.FanIn+i] = float32(v)
			}
		}
	}
}

func dot(a, b []float64) float64 {
	b = b[:len(a)]
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// subtract takes f times b off a.
func subtract(a, b []float64, f float64) {
	b = b[:len(a)]
	for i := range a {
		a[i] -= f * b[i]
	}
}
