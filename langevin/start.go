package langevin

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/jempipe/jempipe/internal/keyed"
)

// Start is the distribution that chains begin from.
type Start interface {
	// Draw fills the state x [D] of a chain of a class, or of none where class is below 0.
	Draw(x []float32, class int32, rng *rand.Rand)
}

// Names of the starts in a configuration.
const (
	StartUniform       = "uniform"
	StartClassGaussian = "class_gaussian"
)

// Uniform starts chains from uniform noise over [Lo, Hi].
type Uniform struct{ Lo, Hi float64 }

// Draw implements Start.
func (u Uniform) Draw(x []float32, _ int32, rng *rand.Rand) {
	for j := range x {
		x[j] = float32(u.Lo + float64((u.Hi-u.Lo)*rng.Float64()))
	}
}

// Gaussians starts the chains of a class from a normal distribution with mean and covariance of training rows of the
// class (JEM++: Yang and Ji 2021, "JEM++: improved techniques for training JEM", section 4.1). A chain without a class
// starts from their mixture, each class as likely as it is frequent.
//
// A draw is mean + (m-1)^(-1/2) sum_i z_i (x_i - mean) over the m rows x_i with independent z_i from N(0, 1): its
// covariance is exactly the sample covariance, and no matrix of D x D is needed.
type Gaussians struct {
	dim     int
	lo, hi  float32
	classes []gaussianRows
	all     gaussianRows // of all rows: for classes with fewer than two
	counts  []int        // rows with a label by class, added up; nil where there are no labels
}

// gaussianRows is a normal distribution by rows.
type gaussianRows struct {
	mean   []float32
	scaled []float32 // [m*D], (x_i - mean) / sqrt(m-1)
}

// maxGaussianRows bounds the rows of one distribution, and so the time of a draw and the memory, which are those of
// m D numbers. Rows in equal distances are taken where a class has more.
const maxGaussianRows = 512

// NewGaussians takes mean and covariance from rows x [n*dim] with labels [n], of which those below 0 are unknown. A
// class with fewer than two rows has the distribution of all rows. States are cut to [lo, hi].
func NewGaussians(x []float32, labels []int32, dim, classes int, lo, hi float64) (*Gaussians, error) {
	n := 0
	if dim > 0 {
		n = len(x) / dim
	}
	if n < 2 || len(x) != n*dim || len(labels) != 0 && len(labels) != n {
		return nil, fmt.Errorf("langevin: %d values and %d labels are not two or more rows of %d elements to take mean and covariance from", len(x), len(labels), dim)
	}
	if !(lo < hi) {
		return nil, fmt.Errorf("langevin: chains cannot start within [%g, %g]", lo, hi)
	}
	g := &Gaussians{dim: dim, lo: float32(lo), hi: float32(hi), classes: make([]gaussianRows, max(classes, 1))}
	byClass := make([][]int, len(g.classes))
	every := make([]int, n)
	for i := range every {
		every[i] = i
		if i < len(labels) && labels[i] >= 0 && int(labels[i]) < len(byClass) {
			byClass[labels[i]] = append(byClass[labels[i]], i)
		}
	}
	g.all = newGaussianRows(x, dim, every)
	total := 0
	g.counts = make([]int, len(byClass))
	for y, rows := range byClass {
		total += len(rows)
		g.counts[y] = total
		g.classes[y] = g.all
		if len(rows) >= 2 {
			g.classes[y] = newGaussianRows(x, dim, rows)
		}
	}
	if total == 0 {
		g.counts = nil
	}
	return g, nil
}

func newGaussianRows(x []float32, dim int, rows []int) gaussianRows {
	m := min(len(rows), maxGaussianRows)
	g := gaussianRows{mean: make([]float32, dim), scaled: make([]float32, m*dim)}
	row := func(i int) []float32 {
		at := rows[i*len(rows)/m]
		return x[at*dim : (at+1)*dim]
	}
	sum := make([]float64, dim)
	for i := range m {
		for j, v := range row(i) {
			sum[j] += float64(v)
		}
	}
	scale := 1 / math.Sqrt(float64(m-1))
	for j := range sum {
		sum[j] /= float64(m)
		g.mean[j] = float32(sum[j])
	}
	for i := range m {
		for j, v := range row(i) {
			g.scaled[i*dim+j] = float32((float64(v) - sum[j]) * scale)
		}
	}
	return g
}

// Draw implements Start.
func (g *Gaussians) Draw(x []float32, class int32, rng *rand.Rand) {
	at := g.all
	switch {
	case class >= 0 && int(class) < len(g.classes):
		at = g.classes[class]
	case g.counts != nil:
		at = g.classes[g.drawClass(rng)]
	}
	copy(x, at.mean)
	z := make([]float32, (len(at.scaled)/g.dim+3)&^3)
	keyed.New(rng.Uint64(), "class gaussian").Normals(z[:len(at.scaled)/g.dim], 0, 0)
	at.add(x, z)
	for j, v := range x {
		x[j] = min(max(v, g.lo), g.hi)
	}
}

// drawClass draws a class by its frequency.
func (g *Gaussians) drawClass(rng *rand.Rand) int {
	row := rng.IntN(g.counts[len(g.counts)-1])
	for y, n := range g.counts {
		if row < n {
			return y
		}
	}
	return len(g.counts) - 1
}

// add adds sum_i z_i scaled_i to x, four rows at a time: x is then read and written a quarter as often.
func (g gaussianRows) add(x, z []float32) {
	d := len(x)
	rows := g.scaled
	for ; len(rows) >= 4*d; rows, z = rows[4*d:], z[4:] {
		r0, r1, r2, r3 := rows[:d], rows[d:2*d], rows[2*d:3*d], rows[3*d:4*d]
		r0, r1, r2, r3 = r0[:len(x)], r1[:len(x)], r2[:len(x)], r3[:len(x)]
		z0, z1, z2, z3 := z[0], z[1], z[2], z[3]
		for j := range x {
			x[j] += float32(float32(float32(z0*r0[j])+float32(z1*r1[j])) + float32(float32(z2*r2[j])+float32(z3*r3[j])))
		}
	}
	for ; len(rows) >= d; rows, z = rows[d:], z[1:] {
		for j, v := range rows[:d] {
			x[j] += float32(z[0] * v)
		}
	}
}
