package onnxruntime

import (
	"context"

	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/train"
)

// shard is the tensors of a part of the rows.
type shard struct {
	rows    int
	in, out []*ort.Tensor // x, alpha, beta, gamma and the weights; logits, gradients, means and variances
}

// own is the number of inputs of a shard that are not shared weights.
const own = 4

func (e *Engine) newShard(rows int, weights []*ort.Tensor) (s *shard, err error) {
	s = &shard{rows: rows}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	add := func(list *[]*ort.Tensor, shape ...int) error {
		sizes := make([]int64, len(shape))
		for i, d := range shape {
			sizes[i] = int64(d)
		}
		t, err := ort.Float32(sizes, nil)
		if err == nil {
			*list = append(*list, t)
		}
		return err
	}
	for _, shape := range [own][]int{append([]int{rows}, e.arch.Input...), {rows, 1}, {rows, 1}, {rows, e.arch.Classes}} {
		if err := add(&s.in, shape...); err != nil {
			return nil, err
		}
	}
	s.in = append(s.in, weights...)
	if err := add(&s.out, rows, e.arch.Classes); err != nil {
		return nil, err
	}
	for _, g := range e.grads {
		if err := add(&s.out, g.Shape...); err != nil {
			return nil, err
		}
	}
	for _, n := range e.norms {
		for range 2 {
			if err := add(&s.out, rows/e.group, n.channels); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// run computes a batch of at most the shard's rows.
func (s *shard) run(call *ort.Call, b train.Batch) error {
	for i, from := range [own][]float32{b.X, b.Alpha, b.Beta, b.Gamma} {
		to := s.in[i].Data()
		clear(to[copy(to, from):])
	}
	return call.Run(context.Background(), s.in, s.out)
}

func (s *shard) close() {
	for _, t := range s.in[:min(own, len(s.in))] {
		t.Close()
	}
	for _, t := range s.out {
		t.Close()
	}
}
