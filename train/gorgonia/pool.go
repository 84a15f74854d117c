package gorgonia

import (
	G "gorgonia.org/gorgonia"

	"github.com/jempipe/jempipe/model"
)

// pooling is the geometry of a pool over images [n*h*w, c].
type pooling struct {
	n, h, w, c int
	oh, ow     int
	k, s, p    int
	// winners are the rows of the input that the last forward pass of a maximum took, one an element of the output.
	winners []int32
}

// pool adds a pool: one operator for the layer and one for its gradient.
func (l *lowering) pool(layer model.Placed) {
	g := &pooling{n: l.n, h: l.shape[1], w: l.shape[2], c: l.shape[0], oh: layer.Out[1], ow: layer.Out[2], k: layer.Kernel, s: layer.Stride, p: layer.Pad}
	forward, back := g.mean, g.meanGrad
	switch layer.Pool {
	case model.MaxPool:
		g.winners = make([]int32, g.n*g.oh*g.ow*g.c)
		forward, back = g.largest, g.largestGrad
	case model.GlobalPool:
		forward, back = g.global, g.globalGrad
	}
	k := newKernel(layer.Path, g.n*g.oh*g.ow, g.c, matrices(1), func(in [][]float32, out []float32) { forward(in[0], out) })
	k.differentiable([]bool{l.live}, func(_ G.Nodes, _, dy *G.Node) (G.Nodes, error) {
		return G.Nodes{l.apply(newKernel(layer.Path+".dx", g.n*g.h*g.w, g.c, matrices(1), func(in [][]float32, out []float32) {
			back(in[0], out)
		}), dy)}, l.err
	})
	l.node = l.apply(k, l.node)
}

// windows calls f for every output row with the input rows in its window, in row-major order.
func (g *pooling) windows(f func(to int, from []int)) {
	rows := make([]int, 0, g.k*g.k)
	for to := range g.n * g.oh * g.ow {
		img, pos := to/(g.oh*g.ow), to%(g.oh*g.ow)
		y0, x0 := pos/g.ow*g.s-g.p, pos%g.ow*g.s-g.p
		rows = rows[:0]
		for y := max(y0, 0); y < min(y0+g.k, g.h); y++ {
			for x := max(x0, 0); x < min(x0+g.k, g.w); x++ {
				rows = append(rows, (img*g.h+y)*g.w+x)
			}
		}
		f(to, rows)
	}
}

// largest takes the first of the largest values of a window. A value that is not a number wins.
func (g *pooling) largest(x, y []float32) {
	c := g.c
	g.windows(func(to int, from []int) {
		best, at := y[to*c:(to+1)*c], g.winners[to*c:(to+1)*c]
		copy(best, x[from[0]*c:])
		for i := range at {
			at[i] = int32(from[0])
		}
		for _, r := range from[1:] {
			for i, v := range x[r*c : (r+1)*c] {
				if !(v <= best[i]) && best[i] == best[i] {
					best[i], at[i] = v, int32(r)
				}
			}
		}
	})
}

// largestGrad gives the gradient of each output to the place that won.
func (g *pooling) largestGrad(dy, dx []float32) {
	clear(dx)
	for i, row := range g.winners {
		dx[int(row)*g.c+i%g.c] += dy[i]
	}
}

// mean divides the sum of a window by its size, padding included.
func (g *pooling) mean(x, y []float32) {
	c, scale := g.c, 1/float32(g.k*g.k)
	g.windows(func(to int, from []int) {
		sum := y[to*c : (to+1)*c]
		clear(sum)
		for _, r := range from {
			for i, v := range x[r*c : (r+1)*c] {
				sum[i] += v
			}
		}
		for i := range sum {
			sum[i] *= scale
		}
	})
}

func (g *pooling) meanGrad(dy, dx []float32) {
	c, scale := g.c, 1/float32(g.k*g.k)
	clear(dx)
	g.windows(func(to int, from []int) {
		d := dy[to*c : (to+1)*c]
		for _, r := range from {
			sum := dx[r*c : (r+1)*c]
			for i, v := range d {
				sum[i] += v * scale
			}
		}
	})
}

// global is the mean over all positions of an image.
func (g *pooling) global(x, y []float32) {
	area, c := g.h*g.w, g.c
	for n := range g.n {
		sum := y[n*c : (n+1)*c]
		clear(sum)
		for r := n * area; r < (n+1)*area; r++ {
			for i, v := range x[r*c : (r+1)*c] {
				sum[i] += v
			}
		}
		for i := range sum {
			sum[i] /= float32(area)
		}
	}
}

func (g *pooling) globalGrad(dy, dx []float32) {
	area, c := g.h*g.w, g.c
	for r := range g.n * area {
		d := dy[r/area*c:][:c]
		for i, v := range d {
			dx[r*c+i] = v / float32(area)
		}
	}
}
