package gorgonia

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// kernel is a gorgonia operator (G.Op and G.SDOp) around a plain function on slices. Its output buffer is made once
// and used again in every run, since gorgonia's tape machine allocates every value anew after each Reset.
//
// A kernel belongs to one node of one graph. Its name must be unique in the graph: gorgonia tells nodes apart by
// hashes of their operators and inputs.
type kernel struct {
	name  string
	in    []int // dimensions of each input: 0 for a scalar, 2 for a matrix
	shape tensor.Shape
	out   G.Value
	data  []float32 // out's backing; one element for a scalar
	run   func(in [][]float32, out []float32)
	diff  []bool // which inputs take part in differentiation
	// back gives the gradient nodes of the inputs, nil where diff is false. A kernel without back cannot be
	// differentiated.
	back func(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error)
}

// newKernel makes a kernel with a matrix output, or with a scalar output where rows is 0.
func newKernel(name string, rows, cols int, in []int, run func(in [][]float32, out []float32)) *kernel {
	k := &kernel{name: name, in: in, run: run, diff: make([]bool, len(in))}
	if rows == 0 {
		k.shape, k.data = tensor.ScalarShape(), make([]float32, 1)
		return k
	}
	k.shape, k.data = tensor.Shape{rows, cols}, aligned(rows*cols)
	k.out = tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(k.data))
	return k
}

// differentiable says how to differentiate the kernel.
func (k *kernel) differentiable(diff []bool, back func(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error)) *kernel {
	k.diff, k.back = diff, back
	return k
}

// Arity is the number of inputs.
func (k *kernel) Arity() int { return len(k.in) }

// Type is the function type in gorgonia's type system. gorgonia recycles it, so each call makes a new one.
func (k *kernel) Type() hm.Type {
	types := make([]hm.Type, 0, len(k.in)+1)
	for _, dims := range append(append([]int{}, k.in...), k.shape.Dims()) {
		if dims == 0 {
			types = append(types, tensor.Float32)
		} else {
			types = append(types, G.TensorType{Dims: dims, Of: tensor.Float32})
		}
	}
	return hm.NewFnType(types...)
}

// InferShape is the output shape, which is fixed.
func (k *kernel) InferShape(...G.DimSizer) (tensor.Shape, error) { return k.shape.Clone(), nil }

// Do runs the kernel. gorgonia runs operators on a goroutine of its own, where nobody else could recover.
func (k *kernel) Do(values ...G.Value) (out G.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%s: %v", k.name, r)
		}
	}()
	if len(values) != len(k.in) {
		return nil, fmt.Errorf("%s takes %d inputs, got %d", k.name, len(k.in), len(values))
	}
	in := make([][]float32, len(values))
	for i, v := range values {
		switch d := v.Data().(type) {
		case []float32:
			in[i] = d
		case float32:
			in[i] = []float32{d}
		default:
			return nil, fmt.Errorf("%s: input %d is %T, want float32", k.name, i, d)
		}
	}
	k.run(in, k.data)
	if k.out == nil {
		return G.NewF32(k.data[0]), nil
	}
	return k.out, nil
}

// ReturnsPtr is false: the output is no alias of an input.
func (k *kernel) ReturnsPtr() bool { return false }

// CallsExtern is false, so that gorgonia allocates no buffer of its own.
func (k *kernel) CallsExtern() bool { return false }

// OverwritesInput is -1: no input is overwritten.
func (k *kernel) OverwritesInput() int { return -1 }

// WriteHash writes the name, which is unique in the graph.
func (k *kernel) WriteHash(h hash.Hash) { fmt.Fprintf(h, "kernel %s", k.name) }

// Hashcode is the 32-bit FNV-1a hash of WriteHash.
func (k *kernel) Hashcode() uint32 {
	h := fnv.New32a()
	k.WriteHash(h)
	return h.Sum32()
}

func (k *kernel) String() string { return k.name }

// DiffWRT says for which inputs gorgonia asks for a gradient.
func (k *kernel) DiffWRT(int) []bool { return k.diff }

// SymDiff gives the gradient nodes of the inputs.
func (k *kernel) SymDiff(inputs G.Nodes, output, grad *G.Node) (G.Nodes, error) {
	if k.back == nil {
		return nil, errors.New(k.name + " has no gradient")
	}
	return k.back(inputs, output, grad)
}

// aligned makes a slice of n zeros whose first element lies at a multiple of 16 bytes. gonum's dot product adds in an
// order that depends on the alignment of its second operand, so equal bits need equal alignment; Go aligns every
// block of 32 bytes or more to 16.
func aligned(n int) []float32 { return make([]float32, max(n, 8))[:n:n] }
