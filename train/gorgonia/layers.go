package gorgonia

import (
	G "gorgonia.org/gorgonia"

	"github.com/jempipe/jempipe/model"
)

// layers adds layers in order after the current node.
func (l *lowering) layers(list []model.Placed, p model.Params) {
	for _, layer := range list {
		if l.err != nil {
			return
		}
		l.layer(layer, p)
		l.shape = layer.Out
	}
}

// layer adds one layer after the current node, whose shape is that of the layer's input.
func (l *lowering) layer(layer model.Placed, p model.Params) {
	switch layer.Kind {
	case model.Conv:
		l.affine(layer.Path, newConv(l.work, l.n, l.shape[1], l.shape[2], l.shape[0], layer.Layer.Out, layer.Kernel, layer.Stride, layer.Pad), p)
	case model.Dense:
		l.affine(layer.Path, newDense(l.work, l.n, l.shape[0], layer.Layer.Out), p)
	case model.Flatten:
		l.flatten(layer.Path)
	case model.Act:
		l.activation(layer.Path, layer.Func)
	case model.Pool:
		l.pool(layer)
	case model.Norm:
		l.norm(layer, p)
	case model.Residual:
		l.residual(layer, p)
	}
}

// affine adds a convolution or a dense layer: one operator for the layer and one for each gradient that is wanted.
func (l *lowering) affine(name string, lin *linear, p model.Params) {
	weight, _ := p.Lookup(name + ".weight")
	bias, biased := p.Lookup(name + ".bias")
	wRows, wCols := lin.out, lin.window()
	in := G.Nodes{l.node, l.input(weight.Name, wRows, wCols, weight.Data)}
	if biased {
		in = append(in, l.input(bias.Name, 1, lin.out, bias.Data))
	}
	l.params = append(l.params, in[1:]...)

	k := newKernel(name, lin.rows(), lin.out, matrices(len(in)), func(in [][]float32, out []float32) {
		var b []float32
		if biased {
			b = in[2]
		}
		lin.forward(in[0], in[1], b, out)
	})
	diff := l.wanted(len(in), len(in)-1)
	k.differentiable(diff, func(in G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		grads := make(G.Nodes, len(in))
		if diff[0] {
			grads[0] = l.apply(newKernel(name+".dx", lin.n*lin.h*lin.w, lin.in, matrices(2),
				func(in [][]float32, out []float32) { lin.inputGrad(in[0], in[1], out) }), in[1], dy)
		}
		if diff[1] {
			grads[1] = l.apply(newKernel(name+".dweight", wRows, wCols, matrices(2),
				func(in [][]float32, out []float32) { lin.weightGrad(in[0], in[1], out) }), in[0], dy)
		}
		if biased && diff[1] {
			grads[2] = l.apply(newKernel(name+".dbias", 1, lin.out, matrices(1),
				func(in [][]float32, out []float32) { lin.biasGrad(in[0], out) }), dy)
		}
		return grads, l.err
	})
	l.node = l.apply(k, in...)
	l.live = l.live || l.want == paramGrads
}

// wanted says of which inputs of a layer a gradient is wanted: of the first where the node is live, and of the trained
// parameters behind it with paramGrads.
func (l *lowering) wanted(inputs, trained int) []bool {
	diff := make([]bool, inputs)
	diff[0] = l.live
	for i := range trained {
		diff[1+i] = l.want == paramGrads
	}
	return diff
}

// matrices are the dimensions of n inputs that all are matrices.
func matrices(n int) []int {
	dims := make([]int, n)
	for i := range dims {
		dims[i] = 2
	}
	return dims
}

// activation adds an element-wise function.
func (l *lowering) activation(name string, f model.Activation) {
	rows, cols := l.matrix()
	k := newKernel(name, rows, cols, matrices(1), func(in [][]float32, out []float32) { activate(f, in[0], out) })
	k.differentiable([]bool{l.live}, func(in G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		return G.Nodes{l.apply(newKernel(name+".dx", rows, cols, matrices(2), func(in [][]float32, out []float32) {
			activateGrad(f, in[0], in[1], out)
		}), in[0], dy)}, l.err
	})
	l.node = l.apply(k, l.node)
}

// flatten turns [N*H*W, C] into [N, C*H*W]; a vector stays what it is.
func (l *lowering) flatten(name string) {
	if len(l.shape) == 1 {
		return
	}
	n, c, area := l.n, l.shape[0], l.shape[1]*l.shape[2]
	k := newKernel(name, n, c*area, matrices(1), func(in [][]float32, out []float32) { swapAxes(in[0], n, area, c, out) })
	k.differentiable([]bool{l.live}, func(_ G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		return G.Nodes{l.apply(newKernel(name+".dx", n*area, c, matrices(1), func(in [][]float32, out []float32) {
			swapAxes(in[0], n, c, area, out)
		}), dy)}, l.err
	})
	l.node = l.apply(k, l.node)
}

// residual adds both branches of a block and their sum. Both get the gradient of the sum as it is, and gorgonia adds
// up what they give their common input.
func (l *lowering) residual(layer model.Placed, p model.Params) {
	x, shape, live := l.node, l.shape, l.live
	l.layers(layer.Body, p)
	body, bodyLive := l.node, l.live
	l.node, l.shape, l.live = x, shape, live
	l.layers(layer.Shortcut, p)
	if l.err != nil {
		return
	}
	rows, cols := l.matrix()
	k := newKernel(layer.Path, rows, cols, matrices(2), func(in [][]float32, out []float32) {
		other := in[1][:len(out)]
		for i, v := range in[0][:len(out)] {
			out[i] = v + other[i]
		}
	})
	diff := []bool{bodyLive, l.live}
	k.differentiable(diff, func(_ G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		grads := make(G.Nodes, 2)
		for i, d := range diff {
			if d {
				grads[i] = dy
			}
		}
		return grads, nil
	})
	l.node = l.apply(k, body, l.node)
	l.live = bodyLive || l.live
}

// matrix is the shape of the current node.
func (l *lowering) matrix() (rows, cols int) {
	if len(l.shape) == 3 {
		return l.n * l.shape[1] * l.shape[2], l.shape[0]
	}
	return l.n, l.shape[0]
}
