package train

import (
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/langevin"
)

// Lint finds what is wrong with the update rule and the start of chains. A range is wanted in any case: chains start in it.
func (s Sampler) Lint() []langevin.Problem {
	ps := s.Rule.Lint()
	if len(s.Range) == 0 {
		ps = append(ps, langevin.Problem{Key: "range", Message: "want two numbers, the lower one first"})
	}
	return ps
}

// newBuffer makes the replay buffer of a run.
func newBuffer(cfg Config, data Data, seed uint64) (*langevin.Buffer, error) {
	s := cfg.Sampler
	b := langevin.BufferConfig{Shape: data.Shape, Classes: 1, Augment: s.Augment, Start: langevin.Uniform{Lo: s.Range[0], Hi: s.Range[1]}}
	if len(b.Shape) == 0 {
		b.Shape = []int{data.Dim}
	}
	if s.Persistent {
		b.Size = s.BufferSize
	}
	if cfg.Conditional() {
		b.Classes = data.Classes
	}
	if s.Start == langevin.StartClassGaussian {
		start, err := langevin.NewGaussians(data.X, knownLabels(data, cfg.PerClass), data.Dim, data.Classes, s.Range[0], s.Range[1])
		if err != nil {
			return nil, err
		}
		b.Start = start
	}
	return langevin.NewBuffer(b, keyed.New(seed, "train buffer start"))
}

// knownLabels are the labels that training may use, -1 elsewhere; nil where there are none.
func knownLabels(data Data, perClass int) []int32 {
	rows := labelledRows(data.Labels, data.Classes, perClass)
	if len(rows) == 0 {
		return nil
	}
	labels := make([]int32, data.Rows())
	for i := range labels {
		labels[i] = -1
	}
	for _, i := range rows {
		labels[i] = data.Labels[i]
	}
	return labels
}
