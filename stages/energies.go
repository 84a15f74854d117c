package stages

import (
	"context"
	"math"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/langevin"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/score"
)

// maxEnergies is how many rows or chains of each set stand in table energies.
const maxEnergies = 2000

// probe is the rows of a data set that stand in table energies.
type probe struct {
	set, dataset string
	at           []int // among the usable rows
	ids          []string
}

// newProbe picks rows of a data set.
func newProbe(set, dataset string, rows *datasets.Rows) probe {
	p := probe{set: set, dataset: dataset, at: evenly(rows.Len(), maxEnergies)}
	for _, i := range p.at {
		p.ids = append(p.ids, rows.ID(i))
	}
	return p
}

// evenly gives at most limit of the numbers below n, evenly spaced, the first one 0.
func evenly(n, limit int) []int {
	out := make([]int, min(n, limit))
	for i := range out {
		out[i] = i * n / len(out)
	}
	return out
}

// energies gives table energies: what the model says of rows of its data and of its chains. buffer is nil without chains.
func (job trainJob) energies(ctx context.Context, predict func(context.Context, []float32) ([]float32, error), buffer *langevin.Buffer) ([]outputs.Energy, error) {
	var table []outputs.Energy
	add := func(x []float32, at []int, row func(i int) outputs.Energy) error {
		dim, k := job.data.Dim, job.data.Classes
		picked := make([]float32, 0, len(at)*dim)
		for _, i := range at {
			picked = append(picked, x[i*dim:(i+1)*dim]...)
		}
		logits, err := predict(ctx, picked)
		if err != nil {
			return err
		}
		for i := range at {
			r := row(i)
			if e := score.Energy(logits[i*k : (i+1)*k]); !math.IsInf(e, 0) {
				r.Energy = outputs.Defined(e)
			}
			table = append(table, r)
		}
		return nil
	}
	for _, p := range job.probes {
		x, labels := job.data.X, job.data.Labels
		if p.set == outputs.EnergyValid {
			x, labels = job.data.ValidX, job.data.ValidLabels
		}
		err := add(x, p.at, func(i int) outputs.Energy {
			r := outputs.Energy{Set: p.set, Dataset: &p.dataset, RowID: &p.ids[i]}
			if y := labels[p.at[i]]; y >= 0 {
				r.Label = &y
			}
			return r
		})
		if err != nil {
			return nil, err
		}
	}
	if buffer == nil {
		return table, nil
	}
	at := evenly(buffer.Size, maxEnergies)
	err := add(buffer.X, at, func(i int) outputs.Energy {
		return outputs.Energy{Set: outputs.EnergyChains, Chain: new(int64(at[i]))}
	})
	return table, err
}
