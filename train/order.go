package train

import "github.com/jempipe/jempipe/internal/keyed"

// order visits rows in a fresh permutation each epoch. Positions run on over the ends of epochs, so every batch is
// full. The permutation of an epoch is keyed by its number.
type order struct {
	rows  []int
	src   keyed.Source
	epoch int
	perm  []int
}

func newOrder(rows []int, src keyed.Source) *order { return &order{rows: rows, src: src, epoch: -1} }

// at gives the row at a position counted from the start of the run.
func (o *order) at(position int) int {
	if e := position / len(o.rows); e != o.epoch {
		o.epoch = e
		o.perm = o.src.At(uint64(e), 0).Perm(len(o.rows))
	}
	return o.rows[o.perm[position%len(o.rows)]]
}
