package onnxruntime

import (
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/lower"
)

// batchNorm is a batch normalisation, whose running statistics follow those of batches.
type batchNorm struct {
	channels       int
	mean, variance []float32 // running, of the parameters, shared
	unbias         float64   // from the biased variance of a group to the unbiased one
}

func newBatchNorm(s lower.Statistics, p model.Params) batchNorm {
	mean, _ := p.Lookup(s.Layer + ".running_mean")
	variance, _ := p.Lookup(s.Layer + ".running_var")
	return batchNorm{channels: s.Channels, mean: mean.Data, variance: variance.Data, unbias: float64(s.Count) / float64(s.Count-1)}
}

// updateNorms moves the running statistics by those of the groups of a batch of n rows, one group after the other (Ioffe
// and Szegedy 2015, algorithm 2, as an exponential mean). Groups that only fill the batch up have none.
func (e *Engine) updateNorms(n int) {
	for _, s := range e.shards {
		groups := min(n, s.rows) / e.group
		n -= groups * e.group
		for k, b := range e.norms {
			at := 1 + len(e.grads) + 2*k
			mean, variance := s.out[at].Data(), s.out[at+1].Data()
			for i := range groups * b.channels {
				c := i % b.channels
				b.mean[c] = blend(b.mean[c], float64(mean[i]))
				b.variance[c] = blend(b.variance[c], float64(variance[i])*b.unbias)
			}
		}
	}
}

func blend(running float32, v float64) float32 {
	return float32((1-model.NormMomentum)*float64(running) + model.NormMomentum*v)
}
