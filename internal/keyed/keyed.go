// Package keyed gives random streams that are addressed by what they are for, not by when they are drawn.
//
// A stream is named by (seed, purpose, index, step). Equal names give equal numbers, whatever was drawn before, in
// which batch, shard or thread; so a result depends on the data and the seed alone.
package keyed

import (
	"hash/fnv"
	"math/rand/v2"
)

// Source is a family of streams: one seed and one purpose, such as "sgld noise".
type Source struct{ key uint64 }

// New returns the family of streams for a purpose under a seed. Two purposes under one seed are independent.
func New(seed uint64, purpose string) Source {
	h := fnv.New64a()
	h.Write([]byte(purpose)) // hash.Hash never returns an error
	return Source{key: mix(mix(seed+golden) ^ h.Sum64())}
}

// Stream is one stream of random numbers. It is not safe for concurrent use; make one per goroutine.
type Stream struct {
	*rand.Rand
	pcg rand.PCG
}

// At returns the stream of an index (sample, chain, parameter) at a step.
func (s Source) At(index, step uint64) *Stream {
	st := &Stream{}
	st.Rand = rand.New(&st.pcg)
	s.Seek(st, index, step)
	return st
}

// Seek moves an existing stream to the start of (index, step) without allocating.
func (s Source) Seek(st *Stream, index, step uint64) {
	hi := mix(s.key ^ mix(index+golden))
	st.pcg.Seed(hi, mix(hi^mix(step^golden)))
}

// Seed derives the seed of a nested family, for code that takes a seed of its own.
func (s Source) Seed(index uint64) uint64 { return mix(s.key ^ mix(^index)) }

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64 (Steele, Lea and Flood 2014).
const golden = 0x9e3779b97f4a7c15

// mix is the SplitMix64 finaliser: a bijection on 64 bits in which every input bit reaches every output bit.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}
