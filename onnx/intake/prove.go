package intake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/score"
)

// result is what a value has on the rows of the probe, one row after another.
type result struct {
	width  int
	values []float32
}

// proof is the largest difference that counts as equal, relative to the largest value: what another order of float32
// sums makes in a deep network.
const proof = 1e-4

// coarse is proof for a model that computes with 16 bits: eleven of them are the digits of float16, eight those of
// bfloat16.
const coarse = 8e-3

// tolerance is proof or coarse.
func (a *adapter) tolerance() float64 {
	if halfPrecision(a.m) {
		return coarse
	}
	return proof
}

// halfPrecision says whether a model has weights of 16 bits.
func halfPrecision(m *onnxpb.ModelProto) bool {
	return slices.ContainsFunc(m.Graph.Initializer, func(t *onnxpb.TensorProto) bool {
		elem := onnxpb.TensorProto_DataType(t.GetDataType())
		return elem == onnxpb.TensorProto_FLOAT16 || elem == onnxpb.TensorProto_BFLOAT16
	})
}

// run gives values of the graph on the probe, in batches of a size; 0 takes the rows one by one. An empty name gives an
// empty result.
func (a *adapter) run(ctx context.Context, m *onnxpb.ModelProto, batch int, values []string) ([]result, error) {
	return a.runFrom(ctx, m, batch, 0, values)
}

// runFrom is run with the rows in another company: the batches begin with a row, and the results too.
func (a *adapter) runFrom(ctx context.Context, m *onnxpb.ModelProto, batch, first int, values []string) ([]result, error) {
	s, names, err := a.session(m, values)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	call, err := s.Bind([]string{lower.InputX}, names)
	if err != nil {
		return nil, err
	}
	batch = max(batch, 1)
	in, err := ort.Float32(append([]int64{int64(batch)}, sizes(a.c.Preprocess.SampleShape)...), nil)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	found := make([]result, len(names))
	for at := 0; at < a.rows; at += batch {
		for r := range batch { // the last row fills up the last batch
			row := (first + min(at+r, a.rows-1)) % a.rows
			copy(in.Data()[r*a.width:(r+1)*a.width], a.probe[row*a.width:])
		}
		out := make([]*ort.Tensor, len(names))
		if err := call.Run(ctx, []*ort.Tensor{in}, out); err != nil {
			return nil, err
		}
		err := collect(found, out, batch, min(batch, a.rows-at))
		for _, t := range out {
			t.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	results := make([]result, len(values))
	for i, v := range values {
		if v != "" {
			results[i] = found[slices.Index(distinct(values), v)]
		}
	}
	return results, nil
}

// collect appends the first rows of a batch to the results.
func collect(found []result, out []*ort.Tensor, batch, rows int) error {
	for i, t := range out {
		n, shape := len(t.Data()), t.Shape()
		if n%batch != 0 || batch > 1 && (len(shape) == 0 || shape[0] != int64(batch)) {
			return fmt.Errorf("an output has shape %v for %d samples: it has no row for each", shape, batch)
		}
		found[i].width = n / batch
		found[i].values = append(found[i].values, t.Data()[:rows*found[i].width]...)
	}
	return nil
}

func distinct(values []string) []string {
	var out []string
	for _, v := range values {
		if v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// session loads a copy of the graph that gives the values as float32.
func (a *adapter) session(m *onnxpb.ModelProto, values []string) (*ort.Session, []string, error) {
	m = clone(m)
	g, err := ir.NewGraph(m)
	if err != nil {
		return nil, nil, err
	}
	m.Graph.Output = nil
	var names []string
	for _, v := range distinct(values) {
		name := g.Add("Cast", []string{v}, ir.Int("to", int64(ir.Float32)))
		m.Graph.Output = append(m.Graph.Output, &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{
			Value: &onnxpb.TypeProto_TensorType{TensorType: &onnxpb.TypeProto_Tensor{ElemType: ir.Float32}}}})
		names = append(names, name)
	}
	ir.Prune(m)
	data, err := ir.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	s, err := a.rt.Session(data, ort.SessionOptions{Threads: 1, Name: a.file})
	return s, names, err
}

// prove compares the finished model, on all rows of the probe at once, with what the file gives row by row. Where the
// batch size of the file is kept, rows are given other neighbours instead.
func (a *adapter) prove(ctx context.Context, truth []result) error {
	values, want := []string{lower.OutputLogits}, []result{a.expected(truth)}
	if a.features != "" {
		values, want = append(values, lower.OutputFeatures), append(want, truth[2])
	}
	if a.c.Batch == 0 {
		got, err := a.run(ctx, a.m, a.rows, values)
		if err != nil {
			return &soloError{fmt.Errorf("it does not run in batches of %d: %w", a.rows, plain(err))}
		}
		return a.agree(values, got, want, fmt.Sprintf("in a batch of %d than alone", a.rows))
	}
	for first := range min(2, a.c.Batch) {
		got, err := a.runFrom(ctx, a.m, a.c.Batch, first, values)
		if err != nil {
			return err
		}
		turned := make([]result, len(want))
		for i, w := range want {
			at := first * w.width
			turned[i] = result{w.width, slices.Concat(w.values[at:], w.values[:at])}
		}
		if err := a.agree(values, got, turned, fmt.Sprintf("at another place in the batch of %d", a.c.Batch)); err != nil {
			return err
		}
	}
	return nil
}

// plain leaves the name of the file out of an error, which Adapt puts there. An error of the caller's context stays.
func plain(err error) error {
	var known *fault.Error
	if errors.As(err, &known) && known.Err == nil {
		return errors.New(known.What)
	}
	return err
}

// agree compares values with what they should be; where says what is different about the run.
func (a *adapter) agree(values []string, got, want []result, where string) error {
	for i, w := range want {
		if got[i].width != w.width {
			return fmt.Errorf("%s has %d values a row %s, want %d", values[i], got[i].width, where, w.width)
		}
		if row, d := furthest(got[i], w); !(d <= a.tolerance()) {
			return fmt.Errorf("row %d of the probe has other %s %s (difference %.3g of the largest value): rows of a batch influence each other, as they do where batch statistics, or the scales of a dynamic quantisation, are computed; export the model in inference mode, with a free batch axis and not quantised",
				row, values[i], where, d)
		}
	}
	return nil
}

// furthest gives the row with the largest difference, relative to the largest value of all. Values that are not finite
// must be the same.
func furthest(got, want result) (row int, d float64) {
	size := 0.0
	for _, v := range want.values {
		if !math.IsInf(float64(v), 0) && v == v {
			size = max(size, math.Abs(float64(v)))
		}
	}
	for i, w := range want.values {
		g := got.values[i]
		if g == w || g != g && w != w {
			continue
		}
		if e := math.Abs(float64(g)-float64(w)) / max(size, math.SmallestNonzeroFloat32); !(e <= d) {
			row, d = i/want.width, e
		}
	}
	return row, d
}

// explains says whether an activation turns logits into the answer of the file.
func (a *adapter) explains(op string, logits, answer result) bool {
	got := result{answer.width, make([]float32, len(answer.values))}
	for i := 0; i < len(logits.values); i += logits.width {
		z, out := logits.values[i:i+logits.width], got.values[i:]
		lse := score.LogSumExp(z)
		for k, v := range z {
			switch op {
			case "Softmax":
				out[k] = float32(math.Exp(float64(v) - lse))
			case "LogSoftmax":
				out[k] = float32(float64(v) - lse)
			default:
				out[k] = float32(1 / (1 + math.Exp(-float64(v))))
			}
		}
	}
	_, d := furthest(got, answer)
	return d <= a.tolerance()
}
