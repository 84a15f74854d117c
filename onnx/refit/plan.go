package refit

import "github.com/jempipe/jempipe/model"

// run is a number of elements of a constant, one behind the other, that stand at equal distances in a parameter.
type run struct{ dst, n, param, src, stride int32 }

// whole is the runs of a constant that is a parameter as it is.
func whole(param, size int) []run { return []run{{n: int32(size), param: int32(param), stride: 1}} }

// builder gathers elements into runs.
type builder struct{ runs []run }

// add appends element dst, a copy of element src of a parameter. dst rises.
func (b *builder) add(dst, param, src int) {
	if len(b.runs) > 0 {
		r := &b.runs[len(b.runs)-1]
		if r.n == 1 && int(r.param) == param && int(r.dst)+1 == dst {
			r.stride = int32(src) - r.src
			r.n++
			return
		}
		if int(r.param) == param && int(r.dst+r.n) == dst && int(r.src+r.n*r.stride) == src {
			r.n++
			return
		}
	}
	b.runs = append(b.runs, run{dst: int32(dst), n: 1, param: int32(param), src: int32(src), stride: 1})
}

// plan is a constant and how it is put together. Elements in no run are 0.
type plan struct {
	data []float32
	runs []run
}

func (p plan) fill(from model.Params) {
	for _, r := range p.runs {
		to, src := p.data[r.dst:r.dst+r.n], from[r.param].Data[r.src:]
		if r.stride == 1 {
			copy(to, src)
			continue
		}
		at := 0
		for i := range to {
			to[i] = from[r.param].Data[int(r.src)+at]
			at += int(r.stride)
		}
	}
}
