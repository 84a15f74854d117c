package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/score"
)

// scored is one batch on its way from the reader over a worker to the writer. The worker answers on done, so that the
// writer can take batches in the order of the reader whichever worker is quicker.
type scored[ID int64 | string] struct {
	rows datasets.Rows
	out  []outputs.Prediction[ID]
	done chan struct{}
}

// scoreDataset streams a data set through the model: one reader, a worker a thread, one writer. The queues are short,
// so memory does not grow with the data set.
func scoreDataset[ID int64 | string](ctx context.Context, rc *pipeline.RunContext, s *Infer, m inferModel, ds datasets.Dataset, role string) (int64, error) {
	info := ds.Info()
	g, ctx := errgroup.WithContext(ctx)
	work := make(chan *scored[ID], m.threads)
	order := make(chan *scored[ID], 2*m.threads)
	free := make(chan *scored[ID], 4*m.threads+2)
	for range cap(free) {
		free <- &scored[ID]{}
	}
	g.Go(fault.Recovered(func() error {
		defer close(work)
		defer close(order)
		return readBatches(ctx, ds, s.BatchSize, free, work, order)
	}))
	for range m.threads {
		g.Go(fault.Recovered(func() error { return scoreBatches(ctx, m, info.Name, role, work) }))
	}
	w := &partWriter[ID]{rc: rc, dataset: info.Name, total: info.Rows, perPart: s.PartRows, meta: predictionMeta(rc, m)}
	g.Go(fault.Recovered(func() error { return writeBatches(ctx, rc, w, info.Rows, order, free) }))
	err := g.Wait()
	if cerr := w.Close(err == nil); err == nil {
		err = cerr
	}
	return w.rows, err
}

func predictionMeta(rc *pipeline.RunContext, m inferModel) outputs.Meta {
	meta := tableMeta(rc, m.hash, m.classes)
	meta.SampleShape = m.shape
	meta.Extra = map[string]string{rangeKey: mustJSON(m.shown)}
	if m.noEnergy != "" {
		meta.Extra[noEnergyKey] = m.noEnergy
	}
	if m.noScore != "" {
		meta.Extra[noScoreKey] = m.noScore
	}
	return meta
}

func readBatches[ID int64 | string](ctx context.Context, ds datasets.Dataset, size int, free <-chan *scored[ID], work, order chan<- *scored[ID]) error {
	r, err := ds.Open(ctx, size)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		var b *scored[ID]
		select {
		case b = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = datasets.Decode(rec, &b.rows)
		rec.Release()
		if err != nil {
			return err
		}
		b.done = make(chan struct{})
		for _, to := range []chan<- *scored[ID]{order, work} {
			select {
			case to <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// scoreBatches is one worker. Its tensors live as long as it does.
func scoreBatches[ID int64 | string](ctx context.Context, m inferModel, dataset, role string, work <-chan *scored[ID]) error {
	w, err := newScorer(m)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		select {
		case b, ok := <-work:
			if !ok {
				return nil
			}
			logits, norms, err := w.run(ctx, b.rows.X, b.rows.Len())
			if err != nil {
				return err
			}
			b.out = b.out[:0]
			for i := range b.rows.Len() {
				b.out = append(b.out, predict[ID](m, dataset, role, &b.rows, i, logits, norms))
			}
			close(b.done)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func writeBatches[ID int64 | string](ctx context.Context, rc *pipeline.RunContext, w *partWriter[ID], total int64, order <-chan *scored[ID], free chan<- *scored[ID]) error {
	for {
		select {
		case b, ok := <-order:
			if !ok {
				return nil
			}
			select {
			case <-b.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := w.Write(b.out); err != nil {
				return err
			}
			rc.Progress(w.rows, total, "%s", w.dataset)
			free <- b // never blocks: there are no more batches than places
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// scorer runs the model on batches with tensors that it keeps.
type scorer struct {
	m    inferModel
	call *ort.Call
	size int
	in   *ort.Tensor
	out  []*ort.Tensor // logits, score
	norm []float64

	logits []float32 // of several batches
}

func newScorer(m inferModel) (*scorer, error) {
	outs := []string{"logits"}
	if m.score {
		outs = append(outs, "score")
	}
	call, err := m.session.Bind([]string{m.session.Inputs()[0].Name}, outs)
	return &scorer{m: m, call: call}, err
}

func (s *scorer) resize(n int) (err error) {
	if s.size == n {
		return nil
	}
	s.Close()
	if s.in, err = ort.Float32(batchShape(n, s.m.shape), nil); err != nil {
		return err
	}
	shapes := [][]int64{{int64(n), int64(len(s.m.classes))}}
	if s.m.score {
		for _, v := range s.m.session.Outputs() {
			if v.Name == "score" {
				shapes = append(shapes, append([]int64{int64(n)}, v.Shape[1:]...))
			}
		}
	}
	for _, shape := range shapes {
		t, err := ort.Float32(shape, nil)
		if err != nil {
			return err
		}
		s.out = append(s.out, t)
	}
	s.size = n
	return nil
}

// run gives logits [n,K] and, where the model has a score, its norm a row; both are valid until the next call. A model
// with a batch size of its own gets batches of that size, the last one filled up with its last row.
func (s *scorer) run(ctx context.Context, x []float32, n int) ([]float32, []float64, error) {
	step := n
	if s.m.batch > 0 {
		step = s.m.batch
	}
	if err := s.resize(step); err != nil {
		return nil, nil, err
	}
	if s.m.batch == 0 {
		copy(s.in.Data(), x)
		if err := s.call.Run(ctx, []*ort.Tensor{s.in}, s.out); err != nil {
			return nil, nil, err
		}
		s.norm = s.norms(s.norm[:0], n)
		return s.out[0].Data(), s.norm, nil
	}
	s.logits, s.norm = s.logits[:0], s.norm[:0]
	width, k := len(x)/n, len(s.m.classes)
	for at := 0; at < n; at += step {
		rows := min(step, n-at)
		in := s.in.Data()
		copy(in, x[at*width:(at+rows)*width])
		for r := rows; r < step; r++ {
			copy(in[r*width:(r+1)*width], x[(at+rows-1)*width:])
		}
		if err := s.call.Run(ctx, []*ort.Tensor{s.in}, s.out); err != nil {
			return nil, nil, err
		}
		s.logits = append(s.logits, s.out[0].Data()[:rows*k]...)
		s.norm = s.norms(s.norm, rows)
	}
	return s.logits, s.norm, nil
}

// norms appends the norms of the first rows of the score; nil where the model has none.
func (s *scorer) norms(to []float64, rows int) []float64 {
	if !s.m.score {
		return nil
	}
	g := s.out[1].Data()
	for i := range rows {
		to = append(to, score.L2Norm(g[i*s.m.width:(i+1)*s.m.width]))
	}
	return to
}

// Close frees the tensors.
func (s *scorer) Close() {
	if s.in != nil {
		s.in.Close()
	}
	for _, t := range s.out {
		t.Close()
	}
	s.in, s.out, s.size = nil, nil, 0
}

// predict fills in the table row of input row i.
func predict[ID int64 | string](m inferModel, dataset, role string, rows *datasets.Rows, i int, logits []float32, norms []float64) outputs.Prediction[ID] {
	p := outputs.Prediction[ID]{Dataset: dataset, Role: role, Status: rows.Status[i], StatusReason: text(rows.Reason[i])}
	switch id := any(&p.SampleID).(type) {
	case *int64:
		*id = rows.IDs[i]
	case *string:
		*id = rows.ID(i)
	}
	switch {
	case !rows.HasLabel[i] || role != outputs.RoleID:
	case int(rows.Labels[i]) >= len(m.classes): // only where the data set does not state its classes
		p.Status = datasets.StatusLabelRange
		p.StatusReason = new(fmt.Sprintf("label %d, the model has classes 0 to %d", rows.Labels[i], len(m.classes)-1))
	default:
		p.Label, p.LabelName = new(rows.Labels[i]), text(m.classes[rows.Labels[i]])
	}
	if p.Status != datasets.StatusOK {
		return p
	}
	k := len(m.classes)
	z := logits[i*k : (i+1)*k]
	probs := make([]float64, k)
	row := score.Describe(z, probs)
	if row.Reason != "" {
		p.Status, p.StatusReason = row.Reason, text("the model gave logits that have no softmax")
		return p
	}
	sample := score.Sample{Logits: z, ScoreNorm: math.NaN(), NoDensity: m.noEnergy}
	if norms != nil {
		sample.ScoreNorm = norms[i]
		p.ScoreNorm = outputs.Defined(norms[i])
	}
	sample.SetRow(row)
	p.Pred, p.PredName, p.Tie = new(int32(row.Pred)), text(m.classes[row.Pred]), new(row.Tie)
	if p.Label != nil {
		p.Correct = new(*p.Label == *p.Pred)
	}
	p.Confidence, p.Margin, p.Entropy = outputs.Defined(row.Confidence), outputs.Defined(row.Margin), outputs.Defined(row.Entropy)
	if m.noEnergy == "" {
		p.Energy = outputs.Defined(row.Energy())
	} else {
		p.EnergyReason = text(m.noEnergy)
	}
	p.Logits = append([]float32(nil), z...)
	p.Probs = make([]float32, k)
	for j, v := range probs {
		p.Probs[j] = float32(v)
	}
	for _, d := range m.detectors {
		if v, reason := d.Score(&sample, score.Options{}); reason == "" {
			*p.OOD(d.Name) = outputs.Defined(v)
		}
	}
	return p
}

// partWriter writes predictions into files of a fixed number of rows.
type partWriter[ID int64 | string] struct {
	rc      *pipeline.RunContext
	dataset string
	total   int64
	perPart int64
	meta    outputs.Meta

	rows int64
	path string
	w    *outputs.Writer[outputs.Prediction[ID]]
}

// Write adds rows, cutting files at multiples of perPart.
func (p *partWriter[ID]) Write(rows []outputs.Prediction[ID]) error {
	for len(rows) > 0 {
		if p.w == nil {
			if err := p.begin(); err != nil {
				return err
			}
		}
		n := min(int64(len(rows)), p.perPart-p.rows%p.perPart)
		if err := p.w.Write(rows[:n]); err != nil {
			return err
		}
		p.rows, rows = p.rows+n, rows[n:]
		if p.rows%p.perPart == 0 {
			if err := p.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *partWriter[ID]) begin() (err error) {
	parts := (p.total + p.perPart - 1) / p.perPart
	p.path = p.rc.Dir.Path("predictions", "dataset="+p.dataset, outputs.PartName(int(p.rows/p.perPart), int(parts)))
	p.w, err = outputs.Create[outputs.Prediction[ID]](p.path, p.meta.Map())
	return err
}

func (p *partWriter[ID]) end() error {
	w := p.w
	p.w = nil
	if err := w.Close(); err != nil {
		return err
	}
	p.rc.Rows(p.path, w.Rows())
	return nil
}

// Close completes the last file; after a failure it leaves it to the removal of the stage's directory.
func (p *partWriter[ID]) Close(complete bool) error {
	if p.w == nil {
		return nil
	}
	if complete {
		return p.end()
	}
	return p.w.Close()
}
