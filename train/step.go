package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/score"
)

// step makes one parameter update. Trouble that it meets is an error of type *trouble; nothing was updated then.
func (r *run) step(ctx context.Context) (Record, error) {
	rec := r.newRecord()
	defer forget(r.deps.Engine.Grads())
	if err := r.gradients(ctx, &rec); err != nil {
		return rec, err
	}
	grads := r.deps.Engine.Grads()
	if r.spectral != nil {
		r.spectral.backward(grads)
	}
	rec.GradNorm = gradientNorm(grads)
	if found := r.cfg.Guard.inspect(rec); found != nil {
		return rec, found
	}
	if c := r.cfg.Optimizer.ClipNorm; c > 0 && rec.GradNorm > c {
		scale(grads, c/rec.GradNorm)
	}
	if err := r.update(rec.LearningRate); err != nil {
		return rec, err
	}
	if rec.Step%r.cfg.EvalEvery == 0 || rec.Step == r.total {
		return rec, r.evaluate(ctx, &rec)
	}
	return rec, nil
}

// gradients runs the batches of a step and leaves their mean gradient in the engine.
func (r *run) gradients(ctx context.Context, rec *Record) error {
	share := 1 / float64(r.cfg.Accumulate)
	var h health
	for i := range r.cfg.Accumulate {
		number := r.state.Step*r.cfg.Accumulate + i
		r.real(number)
		if r.cfg.Generative() {
			one, err := r.sample(ctx, number)
			if err != nil {
				return err
			}
			h.add(one, share)
		}
		r.cfg.weigh(r.layout, r.batch, r.data.Classes, r.labels, r.classes)
		logits, err := r.deps.Engine.Gradients(r.batch)
		if err != nil {
			return err
		}
		rec.Terms.add(r.cfg.terms(r.layout, logits, r.data.Classes, r.labels, r.classes), share)
	}
	if r.cfg.Generative() {
		rec.DataMean, rec.SampleMean, rec.Displacement = h.dataMean, h.sampleMean, h.displacement
		rec.EnergyDrop, rec.Acceptance, rec.Restarts = h.energyDrop, h.acceptance, h.restarts
		rec.SamplesAtBounds, rec.DataAtBounds = h.atBounds, r.edge
	}
	return nil
}

// update changes the weights by the gradients in the engine.
func (r *run) update(lr float64) error {
	if r.spectral != nil {
		r.spectral.expose()
	}
	if err := r.deps.Updater.Step(lr); err != nil {
		return err
	}
	if r.spectral != nil {
		r.spectral.take()
	}
	if r.average == nil {
		return nil
	}
	// Early on the average is one over few steps, lest it be one over the initial weights.
	n := float64(r.state.Step)
	keep := float32(min(r.cfg.EMA, (1+n)/(10+n)))
	for i, t := range r.average {
		for j, w := range r.deps.Params[i].Data {
			t.Data[j] = float32(keep*t.Data[j]) + float32((1-keep)*w)
		}
	}
	return nil
}

// gradientNorm is the Euclidean norm over all gradients, in float64. It is NaN or infinite where a gradient is not finite.
func gradientNorm(grads model.Params) float64 {
	var sum float64
	for _, g := range grads {
		for _, v := range g.Data {
			sum += float64(float64(v) * float64(v))
		}
	}
	return math.Sqrt(sum)
}

// scale multiplies all gradients.
func scale(grads model.Params, f float64) {
	for _, g := range grads {
		for i, v := range g.Data {
			g.Data[i] = float32(float64(v) * f)
		}
	}
}

// forget clears all gradients.
func forget(grads model.Params) {
	for _, g := range grads {
		clear(g.Data)
	}
}

// predict gives the logits of the validation rows with the weights that are evaluated: the moving average, if there is
// one.
func (r *run) predict(ctx context.Context) ([]float32, error) {
	if r.average != nil {
		own := r.deps.Params.Clone()
		fill(r.deps.Params, r.average, "")
		defer fill(r.deps.Params, own, "")
	}
	logits, err := r.deps.Predict(ctx, r.data.ValidX)
	if err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	return logits, nil
}

// evaluate adds accuracy and negative log-likelihood of the validation rows to a record, and keeps the best weights.
func (r *run) evaluate(ctx context.Context, rec *Record) error {
	if len(r.data.ValidLabels) == 0 {
		return nil
	}
	logits, err := r.predict(ctx)
	if err != nil {
		return err
	}
	n, right, nll := 0, 0, 0.0
	k := r.data.Classes
	for i, y := range r.data.ValidLabels {
		if y < 0 {
			continue
		}
		z := logits[i*k : (i+1)*k]
		n++
		nll += score.NLL(z, y)
		if pred, _ := score.Argmax(z); pred == int(y) {
			right++
		}
	}
	if math.IsNaN(nll) || math.IsInf(nll, 0) {
		return &trouble{kind: divergence, what: fmt.Sprintf("the negative log-likelihood of the validation rows is %v", nll)}
	}
	if rec.Step == r.total {
		if found := r.verdict(logits); found != nil {
			return found
		}
	}
	if n > 0 {
		rec.ValidAccuracy, rec.ValidNLL = float64(right)/float64(n), nll/float64(n)
		r.choose(*rec)
	}
	return nil
}

// choose keeps the weights of an evaluation that is better than all before it.
func (r *run) choose(rec Record) {
	value := rec.ValidAccuracy
	better := r.state.Best == nil || value > r.state.Best.Value
	switch r.cfg.Select {
	case "last":
		return
	case "best_nll":
		value = rec.ValidNLL
		better = r.state.Best == nil || value < r.state.Best.Value
	}
	if !better {
		return
	}
	r.state.Best = &best{rec.Step, value}
	from := r.deps.Params
	if r.average != nil {
		from = r.average
	}
	if r.best == nil {
		r.best = from.Clone()
	}
	fill(r.best, from, "")
}

// verdict looks at the validation logits of the finished run: a supervised model that gives every row one and the same
// class after some hundred steps is dead, however calm its losses are.
func (r *run) verdict(logits []float32) *trouble {
	const enough = 500
	if !r.cfg.Supervised() || r.total < enough {
		return nil
	}
	if class, one := r.constant(logits); one {
		return &trouble{kind: divergence, what: fmt.Sprintf("the trained model puts every validation row into class %d", class)}
	}
	return nil
}

// constant says whether all rows have one and the same largest logit, while their labels differ.
func (r *run) constant(logits []float32) (class int, one bool) {
	k := r.data.Classes
	labels := map[int32]bool{}
	for i, y := range r.data.ValidLabels {
		if y >= 0 {
			labels[y] = true
		}
		pred, _ := score.Argmax(logits[i*k : (i+1)*k])
		if i > 0 && pred != class {
			return 0, false
		}
		class = pred
	}
	return class, len(labels) > 1
}

// save writes a checkpoint. between says that its step is not one of Checkpoint.Every.
func (r *run) save(between bool) error {
	moments, steps := r.deps.Updater.State()
	s := saved{facts: r.state, weights: r.deps.Params, records: r.records}
	s.Between, s.Healthy = between, r.watch.healthy(r.cfg.Guard)
	s.Solver = steps
	s.state = slices.Concat(prefixed("average/", r.average), prefixed("best/", r.best), prefixed("moments/", moments))
	if r.spectral != nil {
		s.state = append(s.state, r.spectral.tensors()...)
	}
	if r.result.Buffer != nil {
		s.state = append(s.state, model.Tensor{Name: "buffer", Shape: []int{r.buffer.Size, r.buffer.Dim}, Data: r.buffer.X})
	}
	r.written, r.saved = time.Now(), [2]int{r.state.Step, r.state.Attempt}
	err := r.store.save(s)
	r.state.Returned = false
	return err
}

// restore takes the state of a checkpoint, with its counters.
func (r *run) restore(s saved) error {
	bad := func(what string) error {
		return fmt.Errorf("checkpoint of step %d in %s does not fit this network: %s; remove the directory to start anew", s.Step, r.store.dir, what)
	}
	if !fill(r.deps.Params, s.weights, "") {
		return bad("other weights")
	}
	if r.average != nil && !fill(r.average, s.state, "average/") {
		return bad("no moving average")
	}
	r.best = nil
	if s.Best != nil {
		r.best = r.deps.Params.Clone()
		if !fill(r.best, s.state, "best/") {
			return bad("no best weights")
		}
	}
	if r.spectral != nil && !fill(r.spectral.tensors(), s.state, "") {
		return bad("no singular vectors")
	}
	if r.result.Buffer != nil && !fill(model.Params{{Name: "buffer", Data: r.buffer.X}}, s.state, "") {
		return bad("no replay buffer of this size")
	}
	// The moments come last: making room for them may touch the parameters' memory, never their values.
	if err := r.deps.Updater.SetState(without("moments/", s.state), s.Solver); err != nil {
		return bad(err.Error())
	}
	r.state = s.facts
	return r.attempt()
}

// prefixed renames tensors, sharing their values.
func prefixed(prefix string, ps model.Params) model.Params {
	out := slices.Clone(ps)
	for i := range out {
		out[i].Name = prefix + out[i].Name
	}
	return out
}

// without gives the tensors with a prefix, under their names without it.
func without(prefix string, ps model.Params) (out model.Params) {
	for _, t := range ps {
		if name, ok := strings.CutPrefix(t.Name, prefix); ok {
			t.Name = name
			out = append(out, t)
		}
	}
	return out
}

// fill copies the values of tensors of the same names, which have a prefix in from. It is false, with nothing said
// about the values, where one is missing or of another size.
func fill(into, from model.Params, prefix string) bool {
	for _, t := range into {
		f, ok := from.Lookup(prefix + t.Name)
		if !ok || len(f.Data) != len(t.Data) {
			return false
		}
		copy(t.Data, f.Data)
	}
	return true
}
