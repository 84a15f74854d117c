package train

import "fmt"

// Check says whether a batch is 1 to rows rows of size numbers each with a weight for each of k classes, and how many
// rows it is.
func (b Batch) Check(rows, size, k int) (n int, err error) {
	n = len(b.Alpha)
	if n < 1 || n > rows {
		return 0, fmt.Errorf("batch of %d rows, want 1 to %d", n, rows)
	}
	for _, c := range []struct {
		name        string
		found, want int
	}{{"x", len(b.X), n * size}, {"beta", len(b.Beta), n}, {"gamma", len(b.Gamma), n * k}} {
		if c.found != c.want {
			return 0, fmt.Errorf("batch of %d rows has %d values of %s, want %d", n, c.found, c.name, c.want)
		}
	}
	return n, nil
}

// Slice is the rows from lo to hi, of size numbers and k classes. It shares the memory of b.
func (b Batch) Slice(lo, hi, size, k int) Batch {
	return Batch{X: b.X[lo*size : hi*size], Alpha: b.Alpha[lo:hi], Beta: b.Beta[lo:hi], Gamma: b.Gamma[lo*k : hi*k]}
}
