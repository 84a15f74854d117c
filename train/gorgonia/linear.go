package gorgonia

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// linear is the geometry of a convolution, or of a dense layer as a 1x1 convolution of a 1x1 image. Activations are matrices with one row a position, [N*H*W, C]: a window of the image is then a few contiguous
// runs, and forward pass and both gradients become dot products of long rows, gonum's fastest operation on float32.
//
// Nothing here depends on the number of cores: one goroutine does all the work of one linear.
type linear struct {
	n, h, w, in int // input: n images of h x w positions with in channels
	oh, ow, out int // output
	k, s, p     int // kernel side, stride, padding
	wo, wi, wk  int // steps in the weights to the next output channel, input channel, kernel position
	*scratch
}

// scratch is memory for one operator at a time, which all operators of a network share: it is as large as the largest
// of them needs.
type scratch struct {
	col, a, b, t []float32
	sum          []float64
}

// newConv is a convolution with weights [out,in,k,k].
func newConv(work *scratch, n, h, w, in, out, k, s, p int) *linear {
	return &linear{
		n: n, h: h, w: w, in: in, out: out, k: k, s: s, p: p,
		oh: (h+2*p-k)/s + 1, ow: (w+2*p-k)/s + 1,
		wo: in * k * k, wi: k * k, wk: 1, scratch: work,
	}
}

// newDense is a dense layer with weights [in,out].
func newDense(work *scratch, n, in, out int) *linear {
	return &linear{n: n, h: 1, w: 1, in: in, out: out, k: 1, s: 1, oh: 1, ow: 1, wo: 1, wi: out, scratch: work}
}

// rowBlock bounds the rows that are unfolded at once, so that they stay in a core's cache. It is a multiple of 4.
const rowBlock = 256

func (l *linear) rows() int   { return l.n * l.oh * l.ow }
func (l *linear) window() int { return l.k * l.k * l.in }

// forward computes y[rows,out] = unfold(x) * w^T + bias. bias may be nil.
func (l *linear) forward(x, w, bias, y []float32) {
	k, ld := l.window(), pad4(l.window())
	l.b = grow(l.b, l.out*ld)
	for o := range l.out {
		for i := range l.in {
			for q := range l.k * l.k {
				l.b[o*ld+q*l.in+i] = w[o*l.wo+i*l.wi+q*l.wk]
			}
		}
	}
	for r := range l.rows() {
		if row := y[r*l.out : (r+1)*l.out]; bias == nil {
			clear(row)
		} else {
			copy(row, bias)
		}
	}
	for r := 0; r < l.rows(); r += rowBlock {
		m := min(rowBlock, l.rows()-r)
		dots(m, l.out, k, l.unfold(x, r, m), k, l.b, ld, y[r*l.out:], l.out)
	}
}

// unfold gives the windows of m output positions from r on as rows, each [k,k,in]. A 1x1 layer's windows are x itself.
func (l *linear) unfold(x []float32, r, m int) []float32 {
	k := l.window()
	if l.k == 1 && l.s == 1 && l.p == 0 {
		return x[r*k : (r+m)*k]
	}
	l.col = grow(l.col, rowBlock*k)
	for i := range m {
		img, pos := (r+i)/(l.oh*l.ow), (r+i)%(l.oh*l.ow)
		iy, ix := pos/l.ow*l.s-l.p, pos%l.ow*l.s-l.p
		lo, hi := min(max(-ix, 0), l.k), max(min(l.w-ix, l.k), 0)
		for q := range l.k {
			run := l.col[i*k+q*l.k*l.in : i*k+(q+1)*l.k*l.in]
			if y := iy + q; y < 0 || y >= l.h || lo >= hi {
				clear(run)
				continue
			}
			clear(run[:lo*l.in])
			from := ((img*l.h+iy+q)*l.w + ix + lo) * l.in
			copy(run[lo*l.in:hi*l.in], x[from:])
			clear(run[hi*l.in:])
		}
	}
	return l.col[:m*k]
}

// weightGrad computes dw = dy^T * unfold(x), in the order of the weights.
func (l *linear) weightGrad(x, dy, dw []float32) {
	k := l.window()
	l.a, l.b, l.t = grow(l.a, l.out*rowBlock), grow(l.b, k*rowBlock), grow(l.t, l.out*k)
	clear(l.t)
	for r := 0; r < l.rows(); r += rowBlock {
		m := min(rowBlock, l.rows()-r)
		transpose(l.unfold(x, r, m), m, k, l.b)
		transpose(dy[r*l.out:], m, l.out, l.a)
		dots(l.out, k, m, l.a, rowBlock, l.b, rowBlock, l.t, k)
	}
	for o := range l.out {
		for i := range l.in {
			for q := range l.k * l.k {
				dw[o*l.wo+i*l.wi+q*l.wk] = l.t[o*k+q*l.in+i]
			}
		}
	}
}

// biasGrad computes the column sums of dy.
func (l *linear) biasGrad(dy, db []float32) {
	l.columnSums(dy, db)
}

// columnSums adds up the rows of x, each as long as sums.
func (w *scratch) columnSums(x, sums []float32) {
	total := w.doubles(len(sums))
	for at := 0; at < len(x); at += len(total) {
		for i, v := range x[at : at+len(total)] {
			total[i] += float64(v)
		}
	}
	for i, v := range total {
		sums[i] = float32(v)
	}
}

// doubles gives n zeros, which stand until the next call.
func (w *scratch) doubles(n int) []float64 {
	if cap(w.sum) < n {
		w.sum = make([]float64, n)
	}
	w.sum = w.sum[:n]
	clear(w.sum)
	return w.sum
}

// inputGrad computes dx. The input positions fall into stride x stride phases; all positions of a phase meet the same
// kernel positions, so that each phase is an unfolding of dy times a part of the weights. Nothing is added up in
// memory, as folding columns back into an image would.
func (l *linear) inputGrad(w, dy, dx []float32) {
	for ay := range l.s {
		for ax := range l.s {
			l.phase(w, dy, dx, ay, ax)
		}
	}
}

// phase computes dx at the positions (ay + stride*i, ax + stride*j).
func (l *linear) phase(w, dy, dx []float32, ay, ax int) {
	ys, xs := l.taps(ay), l.taps(ax)
	nh, nw := (l.h-ay+l.s-1)/l.s, (l.w-ax+l.s-1)/l.s
	rows, k := l.n*max(nh, 0)*max(nw, 0), len(ys)*len(xs)*l.out
	ld := pad4(k)
	l.b = grow(l.b, l.in*ld)
	for i := range l.in {
		for ty, y := range ys {
			for tx, x := range xs {
				q := y.kernel*l.k + x.kernel
				for o := range l.out {
					l.b[i*ld+(ty*len(xs)+tx)*l.out+o] = w[o*l.wo+i*l.wi+q*l.wk]
				}
			}
		}
	}
	l.a, l.t = grow(l.a, rowBlock*k), grow(l.t, rowBlock*l.in)
	for r := 0; r < rows; r += rowBlock {
		m := min(rowBlock, rows-r)
		out := l.t[:m*l.in]
		clear(out)
		if k > 0 {
			dots(m, l.in, k, l.gather(dy, ys, xs, r, m, nh, nw), k, l.b, ld, out, l.in)
		}
		for i := range m {
			img, pos := (r+i)/(nh*nw), (r+i)%(nh*nw)
			at := (img*l.h+ay+pos/nw*l.s)*l.w + ax + pos%nw*l.s
			copy(dx[at*l.in:(at+1)*l.in], out[i*l.in:])
		}
	}
}

// tap is a kernel position that meets a phase: input position a + stride*i has its share in output position i + shift.
type tap struct{ kernel, shift int }

func (l *linear) taps(a int) []tap {
	var ts []tap
	for q := range l.k {
		if (a+l.p-q)%l.s == 0 {
			ts = append(ts, tap{q, (a + l.p - q) / l.s})
		}
	}
	return ts
}

// gather gives the rows of dy that meet m positions of a phase from r on, each [taps of y, taps of x, out].
func (l *linear) gather(dy []float32, ys, xs []tap, r, m, nh, nw int) []float32 {
	if l.k == 1 && l.s == 1 && l.p == 0 {
		return dy[r*l.out : (r+m)*l.out]
	}
	at := 0
	for i := range m {
		img, pos := (r+i)/(nh*nw), (r+i)%(nh*nw)
		for _, ty := range ys {
			y := pos/nw + ty.shift
			for _, tx := range xs {
				x := pos%nw + tx.shift
				run := l.a[at : at+l.out]
				at += l.out
				if y < 0 || y >= l.oh || x < 0 || x >= l.ow {
					clear(run)
				} else {
					copy(run, dy[((img*l.oh+y)*l.ow+x)*l.out:])
				}
			}
		}
	}
	return l.a[:at]
}

// dots adds a * b^T to c, where a is [m,k], b is [n,k] and c is [m,n], with the distances lda, ldb and ldc between
// rows. b must come from aligned, for equal bits; a multiple of 4 for ldb is faster. The tiles fit into a core's first
// cache, and are small enough for gonum to compute each on the calling goroutine.
func dots(m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	const rows = 64
	cols := min(max(4608/k, 4), 64)
	for i := 0; i < m; i += rows {
		for j := 0; j < n; j += cols {
			gonum.Implementation{}.Sgemm(blas.NoTrans, blas.Trans, min(rows, m-i), min(cols, n-j), k,
				1, a[i*lda:], lda, b[j*ldb:], ldb, 1, c[i*ldc+j:], ldc)
		}
	}
}

// transpose writes the [m,n] matrix a as [n,m] with the distance rowBlock between rows, in squares that stay in cache.
func transpose(a []float32, m, n int, t []float32) {
	const side = 16
	for i0 := 0; i0 < m; i0 += side {
		i1 := min(i0+side, m)
		for j := range n {
			to := t[j*rowBlock+i0 : j*rowBlock+i1]
			from := i0*n + j
			for i := range to {
				to[i] = a[from]
				from += n
			}
		}
	}
}

// pad4 is the next multiple of 4.
func pad4(n int) int { return (n + 3) / 4 * 4 }

// grow is s with length n, keeping its memory where that is large enough. The contents are undefined.
func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return aligned(n)
	}
	return s[:n]
}
