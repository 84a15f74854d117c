package score

import (
	"cmp"
	"slices"
)

// thinner keeps a bounded number of the points of a curve, which come in order of a position in [0,1]. The positions
// are cut into equal buckets, and each keeps its points of the lowest and the highest height, so that the corners and
// the envelope of the curve survive and no gap is wider than two buckets where there were points.
type thinner[T any] struct {
	buckets []thinBucket[T]
	always  []thinPoint[T]
	next    int64
}

type thinPoint[T any] struct {
	order  int64
	height float64
	point  T
}

type thinBucket[T any] struct {
	used    bool
	low, up thinPoint[T]
}

// newThinner keeps at most limit points, of which always are added with keep.
func newThinner[T any](limit, always int) *thinner[T] {
	return &thinner[T]{buckets: make([]thinBucket[T], max(1, (limit-always)/2))}
}

func (t *thinner[T]) add(position, height float64, p T) {
	b := &t.buckets[min(len(t.buckets)-1, int(position*float64(len(t.buckets))))]
	tp := thinPoint[T]{t.next, height, p}
	t.next++
	if !b.used {
		b.used, b.low, b.up = true, tp, tp
		return
	}
	if height < b.low.height {
		b.low = tp
	}
	if height > b.up.height {
		b.up = tp
	}
}

// keep adds a point that stays whatever happens.
func (t *thinner[T]) keep(p T) {
	t.always = append(t.always, thinPoint[T]{order: t.next, point: p})
	t.next++
}

// points are the points kept, in the order in which they came.
func (t *thinner[T]) points() []T {
	all := slices.Clone(t.always)
	for _, b := range t.buckets {
		if b.used {
			all = append(all, b.low)
			if b.up.order != b.low.order {
				all = append(all, b.up)
			}
		}
	}
	slices.SortFunc(all, func(a, b thinPoint[T]) int { return cmp.Compare(a.order, b.order) })
	out := make([]T, len(all))
	for i, p := range all {
		out[i] = p.point
	}
	return out
}
