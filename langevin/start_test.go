package langevin

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jempipe/jempipe/internal/augment"
	"github.com/jempipe/jempipe/internal/keyed"
)

// rowsOfTwoClasses are rows of three correlated elements in two classes, as frequent as 1 to 3, and some without a label.
func rowsOfTwoClasses(n int) (x []float32, labels []int32) {
	z := make([]float32, 3)
	for i := range n {
		keyed.New(2, "rows").Normals(z, uint64(i), 0)
		y := int32(1)
		if i%4 == 0 {
			y = 0
		}
		a, b, c := z[0], 0.5*z[0]+0.3*z[1], -0.4*z[1]+0.2*z[2]
		if y == 0 {
			a, b, c = 0.1*a+1, -b, c-2
		}
		if i%10 == 9 {
			y = -1
		}
		x, labels = append(x, a, b, c), append(labels, y)
	}
	return x, labels
}

// covariance is the mean and sample covariance of rows of 3, in float64.
func covariance(rows [][]float32) (mean [3]float64, cov [3][3]float64) {
	n := float64(len(rows))
	for _, r := range rows {
		for j := range mean {
			mean[j] += float64(r[j]) / n
		}
	}
	for _, r := range rows {
		for j := range mean {
			for k := range mean {
				cov[j][k] += (float64(r[j]) - mean[j]) * (float64(r[k]) - mean[k]) / (n - 1)
			}
		}
	}
	return mean, cov
}

// With n draws a mean has standard error sqrt(c_jj/n) and a covariance sqrt((c_jj c_kk + c_jk^2)/n).
func checkMoments(t *testing.T, what string, drawn [][]float32, mean [3]float64, cov [3][3]float64) {
	t.Helper()
	n := float64(len(drawn))
	m, c := covariance(drawn)
	for j := range m {
		if tol := 4.5 * math.Sqrt(cov[j][j]/n); math.Abs(m[j]-mean[j]) > tol {
			t.Errorf("%s: mean of element %d %.4f, want %.4f within %.4f", what, j, m[j], mean[j], tol)
		}
		for k := range m {
			if tol := 4.5 * math.Sqrt((cov[j][j]*cov[k][k]+cov[j][k]*cov[j][k])/n); math.Abs(c[j][k]-cov[j][k]) > tol {
				t.Errorf("%s: covariance %d,%d %.4f, want %.4f within %.4f", what, j, k, c[j][k], cov[j][k], tol)
			}
		}
	}
}

func drawMany(s Start, class int32, n int) [][]float32 {
	out := make([][]float32, n)
	rng := keyed.New(3, "draws").At(0, 0)
	for i := range out {
		out[i] = make([]float32, 3)
		s.Draw(out[i], class, rng.Rand)
	}
	return out
}

func TestGaussiansHaveTheMomentsOfTheirRows(t *testing.T) {
	x, labels := rowsOfTwoClasses(400)
	g, err := NewGaussians(x, labels, 3, 2, -100, 100)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20000
	byClass := map[int32][][]float32{}
	for i, y := range labels {
		byClass[y] = append(byClass[y], x[3*i:3*i+3])
		byClass[-2] = append(byClass[-2], x[3*i:3*i+3])
	}
	for y := range int32(2) {
		mean, cov := covariance(byClass[y])
		checkMoments(t, "class", drawMany(g, y, n), mean, cov)
	}
	unlabelled, err := NewGaussians(x, nil, 3, 2, -100, 100)
	if err != nil {
		t.Fatal(err)
	}
	mean, cov := covariance(byClass[-2])
	checkMoments(t, "no labels", drawMany(unlabelled, -1, n), mean, cov)

	// The mixture: element 0 tells the classes apart, being 1 with little width in class 0.
	first := 0
	for _, r := range drawMany(g, -1, n) {
		if math.Abs(float64(r[0])-1) < 0.4 && r[2] < -1 {
			first++
		}
	}
	share := float64(len(byClass[0])) / float64(len(byClass[0])+len(byClass[1]))
	if got := float64(first) / n; math.Abs(got-share) > 0.03 {
		t.Errorf("%.3f of the chains without a class look like class 0, %.3f of the labels are 0", got, share)
	}
}

// A class with more rows than are kept takes them from all over.
func TestGaussiansOfManyRows(t *testing.T) {
	x := make([]float32, 3*5*maxGaussianRows)
	for i := range x {
		x[i] = float32(i) / float32(len(x)) // rises from 0 to 1
	}
	g, err := NewGaussians(x, nil, 3, 1, -9, 9)
	if err != nil {
		t.Fatal(err)
	}
	if m := g.all.mean[0]; math.Abs(float64(m)-0.5) > 0.01 || len(g.all.scaled) != 3*maxGaussianRows {
		t.Errorf("mean %v of %d values, want 0.5 of %d rows", m, len(g.all.scaled), maxGaussianRows)
	}
}

func TestGaussiansOfFewRowsAndBounds(t *testing.T) {
	x := []float32{0, 0, 0, 2, 2, 2, 10, 10, 10}
	g, err := NewGaussians(x, []int32{0, 0, 1}, 3, 3, -1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for class := range int32(3) {
		for _, r := range drawMany(g, class, 50) {
			if slices.Min(r) < -1 || slices.Max(r) > 3 {
				t.Fatalf("class %d starts at %v, outside [-1, 3]", class, r)
			}
		}
	}
	if g.classes[1].mean[0] != 4 || g.classes[2].mean[0] != 4 || g.classes[0].mean[0] != 1 {
		t.Errorf("means %v, %v and %v; want 1, and 4, that of all rows, for classes with one row and none",
			g.classes[0].mean[0], g.classes[1].mean[0], g.classes[2].mean[0])
	}
	for want, f := range map[string]func() error{
		"two or more rows": func() error { _, err := NewGaussians(x[:3], nil, 3, 1, 0, 1); return err },
		"labels":           func() error { _, err := NewGaussians(x, []int32{1}, 3, 1, 0, 1); return err },
		"within [1, 1]":    func() error { _, err := NewGaussians(x, nil, 3, 1, 1, 1); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestBufferStartsFromItsDistribution(t *testing.T) {
	x, labels := rowsOfTwoClasses(400)
	g, err := NewGaussians(x, labels, 3, 2, -100, 100)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBuffer(BufferConfig{Size: 4000, Shape: []int{3}, Classes: 2, Start: g}, keyed.New(1, "b"))
	if err != nil {
		t.Fatal(err)
	}
	var first [][]float32
	for i := range 2000 {
		first = append(first, b.X[3*i:3*i+3])
	}
	var rows [][]float32
	for i, y := range labels {
		if y == 0 {
			rows = append(rows, x[3*i:3*i+3])
		}
	}
	mean, cov := covariance(rows)
	checkMoments(t, "slots of class 0", first, mean, cov)
}

func TestShortRunChainsStartAnew(t *testing.T) {
	src := keyed.New(4, "buffer")
	b, err := NewBuffer(BufferConfig{Shape: []int{4}, Classes: 3, Start: Uniform{-1, 1}}, src)
	if err != nil {
		t.Fatal(err)
	}
	x, slots := make([]float32, 40), make([]int, 10)
	for step := range uint64(3) {
		before := slices.Clone(x)
		if anew := b.Draw(x, slots, []int32{0, 1, 2, 0, 1, 2, 0, 1, 2, 0}, 0, src.At(step, 1).Rand); anew != 10 {
			t.Errorf("%d of 10 chains start anew", anew)
		}
		if slices.Equal(before, x) || slices.Min(x) < -1 || slices.Max(x) > 1 {
			t.Errorf("states %v", x)
		}
		b.Put(slots, x)
	}
	if len(b.X) != 0 || !math.IsNaN(b.Mean()) {
		t.Errorf("%d values are kept with mean %v", len(b.X), b.Mean())
	}
}

// Entries come out shifted and flipped; what is in the buffer stays.
func TestBufferEntriesAreAugmented(t *testing.T) {
	src := keyed.New(4, "buffer")
	cfg := BufferConfig{Size: 1, Shape: []int{1, 3, 3}, Start: Uniform{-1, 1}, Augment: augment.Config{Shift: 1, Flip: true}}
	b, err := NewBuffer(cfg, src)
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.Clone(b.X)
	x, slots, different := make([]float32, 9*200), make([]int, 200), map[float32]bool{}
	b.Draw(x, slots, nil, 0, src.At(0, 1).Rand)
	for r := range slots {
		different[x[9*r]] = true
		for _, v := range x[9*r : 9*r+9] {
			if !slices.Contains(kept, v) {
				t.Fatalf("a pixel %v is none of the entry %v", v, kept)
			}
		}
	}
	// The upper left pixel is one of the upper left four, or, flipped, of the upper right four: six in all.
	if len(different) != 6 {
		t.Errorf("%d different upper left pixels, want 6", len(different))
	}
	if !slices.Equal(b.X, kept) {
		t.Error("the buffer changed")
	}
}

func TestBadBuffersAreRefused(t *testing.T) {
	u := Uniform{-1, 1}
	for want, c := range map[string]BufferConfig{
		"multiple of 3":     {Size: 10, Shape: []int{1}, Classes: 3, Start: u},
		"-1 chains":         {Size: -1, Shape: []int{1}, Start: u},
		"shape []":          {Size: 1, Start: u},
		"[1, 1]":            {Size: 1, Shape: []int{1}, Start: Uniform{1, 1}},
		"needs a distribut": {Size: 1, Shape: []int{1}},
		"no pictures":       {Size: 1, Shape: []int{4}, Start: u, Augment: augment.Config{Flip: true}},
	} {
		if _, err := NewBuffer(c, keyed.New(1, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q in it", c, err, want)
		}
	}
}
