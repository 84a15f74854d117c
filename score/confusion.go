package score

import "fmt"

// Confusion counts rows by label and predicted class.
type Confusion struct {
	k      int
	counts []int64 // [K,K], row-major, label first
}

// NewConfusion has K classes.
func NewConfusion(classes int) *Confusion {
	return &Confusion{k: classes, counts: make([]int64, classes*classes)}
}

// Add counts a row; false, and nothing counted, when a class is outside 0..K-1.
func (c *Confusion) Add(label, pred int) bool {
	if label < 0 || label >= c.k || pred < 0 || pred >= c.k {
		return false
	}
	c.counts[label*c.k+pred]++
	return true
}

// Merge adds all rows of o. Both must have the same number of classes.
func (c *Confusion) Merge(o *Confusion) error {
	if c.k != o.k {
		return fmt.Errorf("cannot merge confusion matrices of %d and %d classes", c.k, o.k)
	}
	for i, n := range o.counts {
		c.counts[i] += n
	}
	return nil
}

// Classes is K.
func (c *Confusion) Classes() int { return c.k }

// Count is the number of rows with this label and this predicted class, both in 0..K-1.
func (c *Confusion) Count(label, pred int) int64 { return c.counts[label*c.k+pred] }

// Labelled is the number of rows with this label.
func (c *Confusion) Labelled(label int) int64 {
	n := int64(0)
	for pred := range c.k {
		n += c.Count(label, pred)
	}
	return n
}

// Predicted is the number of rows with this predicted class.
func (c *Confusion) Predicted(pred int) int64 {
	n := int64(0)
	for label := range c.k {
		n += c.Count(label, pred)
	}
	return n
}

// Accuracy is the share of rows on the diagonal, with a Wilson interval.
func (c *Confusion) Accuracy() Metric {
	right, n := int64(0), int64(0)
	for label := range c.k {
		right += c.Count(label, label)
		n += c.Labelled(label)
	}
	return proportion(right, n, CIWilson)
}
