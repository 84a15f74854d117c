package gorgonia

import (
	"fmt"
	"sync"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/jempipe/jempipe/model"
)

// network is an architecture lowered to a gorgonia graph for a fixed number of rows, and the machine that runs it.
// Images are [N,C,H,W] outside and matrices [N*H*W, C] inside.
type network struct {
	rows, size, classes   int // rows, values a row of x, logits a row
	channels, area        int // of the input; area is H*W, 1 for a vector
	x, alpha, beta, gamma []float32
	logits                *G.Node
	grads                 G.Nodes // with respect to each trained parameter, in order; or to x
	norms                 []*batchNorm
	machine               G.VM
}

// want says what a network computes beside its logits.
type want int

const (
	onlyLogits want = iota
	paramGrads      // gradient of the loss with respect to the parameters
	inputGrads      // gradient of the loss with respect to x
)

// building serialises the construction of graphs, for which gorgonia keeps counters in package variables.
var building sync.Mutex

// lowering is a graph under construction: the layers so far and the node they end in.
type lowering struct {
	g     *G.ExprGraph
	n     int     // rows
	shape []int   // of one sample at the node
	node  *G.Node // [N*H*W, C] or [N, D]
	// live says that the node depends on something that a gradient is wanted for. No gradient is computed before.
	live   bool
	want   want
	group  int // rows that share the statistics of a batch normalisation
	params G.Nodes
	norms  []*batchNorm
	work   *scratch
	err    error
}

// lower builds the graph and the machine. The values of p are shared, not copied. Batch normalisations use running
// statistics; with paramGrads those of each group of rows, which must divide rows.
func lower(a model.Arch, p model.Params, rows, group int, w want) (net *network, err error) {
	building.Lock()
	defer building.Unlock()
	defer recovered(&err)
	if rows < 1 {
		return nil, fmt.Errorf("model %s: %d rows, want at least 1", a.Name, rows)
	}
	if err := p.Check(a); err != nil {
		return nil, err
	}
	net = &network{rows: rows, size: model.Size(a.Input), classes: a.Classes, channels: a.Input[0], area: 1}
	if len(a.Input) == 3 {
		net.area = a.Input[1] * a.Input[2]
	}
	layers, err := a.Place()
	if err != nil {
		return nil, err
	}
	l := &lowering{g: G.NewGraph(), n: rows, shape: a.Input, live: w == inputGrads, want: w, group: group, work: &scratch{}}
	net.x = aligned(rows * net.size)
	x := l.input("x", rows*net.area, net.channels, net.x)
	l.node = x
	l.layers(layers, p)
	if l.err != nil {
		return nil, fmt.Errorf("model %s: %w", a.Name, l.err)
	}
	net.logits, net.norms = l.node, l.norms
	if w != onlyLogits {
		net.alpha, net.beta, net.gamma = aligned(rows), aligned(rows), aligned(rows*a.Classes)
		wrt := l.params
		if w == inputGrads {
			wrt = G.Nodes{x}
		}
		cost := l.loss(a.Classes, net)
		if l.err != nil {
			return nil, fmt.Errorf("model %s: %w", a.Name, l.err)
		}
		if net.grads, err = G.Grad(cost, wrt...); err != nil {
			return nil, fmt.Errorf("model %s: differentiating the graph: %w", a.Name, err)
		}
	}
	if err := distinct(l.g); err != nil {
		return nil, fmt.Errorf("model %s: %w", a.Name, err)
	}
	net.machine = G.NewTapeMachine(l.g)
	return net, nil
}

// distinct refuses a graph in which two nodes share a hash: gorgonia would silently take one for the other.
func distinct(g *G.ExprGraph) error {
	seen := map[uint32]*G.Node{}
	for _, n := range g.AllNodes() {
		if other := seen[n.Hashcode()]; other != nil {
			return fmt.Errorf("gorgonia cannot tell %v from %v (equal hashes): rename a layer", n, other)
		}
		seen[n.Hashcode()] = n
	}
	return nil
}

// input adds an input matrix that reads the given memory.
func (l *lowering) input(name string, rows, cols int, data []float32) *G.Node {
	return G.NewMatrix(l.g, tensor.Float32, G.WithName(name), G.WithShape(rows, cols),
		G.WithValue(tensor.New(tensor.WithShape(rows, cols), tensor.WithBacking(data))))
}

// apply adds an operator.
func (l *lowering) apply(k *kernel, children ...*G.Node) *G.Node {
	if l.err != nil {
		return nil
	}
	n, err := G.ApplyOp(k, children...)
	if err != nil {
		l.err = fmt.Errorf("%s: %w", k.name, err)
	}
	return n
}

// loss adds the sum that Batch describes.
func (l *lowering) loss(classes int, net *network) *G.Node {
	alpha := l.input("alpha", l.n, 1, net.alpha)
	beta := l.input("beta", l.n, 1, net.beta)
	gamma := l.input("gamma", l.n, classes, net.gamma)
	k := newKernel("loss", 0, 0, []int{2, 2, 2, 2}, func(in [][]float32, out []float32) {
		out[0] = loss(in[0], in[1], in[2], in[3], classes)
	})
	k.differentiable([]bool{l.live, false, false, false}, func(in G.Nodes, _, seed *G.Node) (G.Nodes, error) {
		dz := l.apply(newKernel("loss.dx", l.n, classes, []int{2, 2, 2, 2, 0}, func(in [][]float32, out []float32) {
			lossGrad(in[0], in[1], in[2], in[3], classes, in[4][0], out)
		}), append(in[:4:4], seed)...)
		return G.Nodes{dz, nil, nil, nil}, l.err
	})
	return l.apply(k, l.node, alpha, beta, gamma)
}

// swapAxes writes [n,a,b] as [n,b,a].
func swapAxes(x []float32, n, a, b int, out []float32) {
	for r := range n {
		from, to := x[r*a*b:(r+1)*a*b], out[r*a*b:(r+1)*a*b]
		for i := range a {
			for j, v := range from[i*b : (i+1)*b] {
				to[j*a+i] = v
			}
		}
	}
}

// load sets x to rows of [C,H,W] or [D], and further rows to zero.
func (net *network) load(x []float32) {
	n := len(x) / net.size
	swapAxes(x, n, net.channels, net.area, net.x)
	clear(net.x[len(x):])
}

// run evaluates the graph. The values it leaves stand until the next run.
func (net *network) run() (err error) {
	defer recovered(&err)
	defer net.machine.Reset()
	if err := net.machine.RunAll(); err != nil {
		return fmt.Errorf("running the graph: %w", err)
	}
	return nil
}

// values is the memory of a node after a run.
func values(n *G.Node, size int) ([]float32, error) {
	v := n.Value()
	if v == nil {
		return nil, fmt.Errorf("gorgonia left %s without a value", n.Name())
	}
	if s, ok := v.Data().([]float32); ok && len(s) == size {
		return s, nil
	}
	return nil, fmt.Errorf("gorgonia left %v values in %s, want %d of float32", v.Shape(), n.Name(), size)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("gorgonia: %v", r)
	}
}
