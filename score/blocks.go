package score

import (
	"iter"
	"math/big"
	"math/bits"
)

// block is one distinct value in two sorted groups a and b: how many are smaller and how many are equal in each.
type block struct {
	key          uint64
	aBelow, aTie int64
	bBelow, bTie int64
}

// blocks walks the distinct values of two ascending slices, upwards.
func blocks(a, b []uint64) iter.Seq[block] {
	return func(yield func(block) bool) {
		i, j := 0, 0
		for i < len(a) || j < len(b) {
			var k uint64
			if j == len(b) || i < len(a) && a[i] <= b[j] {
				k = a[i]
			} else {
				k = b[j]
			}
			i2, j2 := i, j
			if i < len(a) && a[i] == k {
				i2 = blockEnd(a, i)
			}
			if j < len(b) && b[j] == k {
				j2 = blockEnd(b, j)
			}
			if !yield(block{k, int64(i), int64(i2 - i), int64(j), int64(j2 - j)}) {
				return
			}
			i, j = i2, j2
		}
	}
}

// blocksDown is blocks from the largest value to the smallest.
func blocksDown(a, b []uint64) iter.Seq[block] {
	return func(yield func(block) bool) {
		i, j := len(a), len(b) // ends of what is left
		for i > 0 || j > 0 {
			var k uint64
			if j == 0 || i > 0 && a[i-1] >= b[j-1] {
				k = a[i-1]
			} else {
				k = b[j-1]
			}
			i2, j2 := i, j
			for i2 > 0 && a[i2-1] == k {
				i2--
			}
			for j2 > 0 && b[j2-1] == k {
				j2--
			}
			if !yield(block{k, int64(i2), int64(i - i2), int64(j2), int64(j - j2)}) {
				return
			}
			i, j = i2, j2
		}
	}
}

// uint128 is an unsigned integer that sums of squared ranks fit in.
type uint128 struct{ hi, lo uint64 }

// addSquares adds count * x * x.
func (u *uint128) addSquares(count, x uint64) {
	h, l := bits.Mul64(x, x)
	ch, cl := bits.Mul64(l, count)
	ch += h * count
	var carry uint64
	u.lo, carry = bits.Add64(u.lo, cl, 0)
	u.hi, _ = bits.Add64(u.hi, ch, carry)
}

func (u uint128) big() *big.Int {
	v := new(big.Int).SetUint64(u.hi)
	return v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(u.lo))
}

// bigFloat is x rounded to float64.
func bigFloat(x *big.Int) float64 {
	v, _ := new(big.Float).SetInt(x).Float64()
	return v
}
