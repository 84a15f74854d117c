package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/nearest"
)

// Call runs a session with chosen inputs and outputs. Several goroutines may run it at the same time.
type Call struct {
	s   *Session
	in  []int // the position in the session's inputs of each tensor given
	out []int // the position in s.readable of each tensor wanted
}

// Bind chooses the inputs, in the order in which Run is given them, and the outputs that are wanted. nil stands for
// all, in the model's order. Every input of the model must be chosen. Inputs and outputs must be float32 tensors.
// ONNX Runtime computes the whole graph however few outputs are wanted.
func (s *Session) Bind(inputs, outputs []string) (*Call, error) {
	if len(s.inputs) == 0 {
		return nil, fault.New(fault.Data, s.name, "the model has no inputs, so there is nothing to run it on")
	}
	if inputs == nil {
		inputs = names(s.inputs)
	}
	if outputs == nil {
		outputs = names(s.outputs)
	}
	in, err := s.pick("input", inputs, s.inputs)
	if err != nil {
		return nil, err
	}
	for i, v := range s.inputs {
		if !slices.Contains(in, i) {
			return nil, fault.New(fault.Data, s.name, "the model needs input %s, and only %s is given", v, strings.Join(inputs, ", "))
		}
	}
	out, err := s.pick("output", outputs, s.outputs)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Data, s.name, "no output of the model is wanted")
	}
	for i, at := range out {
		out[i] = slices.Index(s.readable, at)
	}
	return &Call{s: s, in: in, out: out}, nil
}

func names(values []Value) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.Name
	}
	return list
}

// pick finds each wanted name once among the known values and checks its type.
func (s *Session) pick(what string, wanted []string, known []Value) ([]int, error) {
	var list []int
	for _, name := range wanted {
		at := slices.IndexFunc(known, func(v Value) bool { return v.Name == name })
		if at < 0 {
			all := names(known)
			f := fault.New(fault.Data, s.name, "the model has no %s %q; it has %s", what, name, strings.Join(all, ", "))
			if near := nearest.To(name, all); near != "" {
				return nil, f.Do("did you mean %q?", near)
			}
			return nil, f
		}
		if slices.Contains(list, at) {
			return nil, fault.New(fault.Data, s.name, "%s %q is chosen twice", what, name)
		}
		if known[at].Type != "float32" {
			return nil, fault.New(fault.Data, s.name, "%s %s is not a float32 tensor", what, known[at]).
				Do("leave it out, or convert it to float32 inside the model with a Cast")
		}
		list = append(list, at)
	}
	return list, nil
}

// Run runs the model with all its inputs and outputs in the order of Inputs and Outputs, see Call.Run.
func (s *Session) Run(ctx context.Context, in, out []*Tensor) error {
	c, err := s.Bind(nil, nil)
	if err != nil {
		return err
	}
	return c.Run(ctx, in, out)
}

// Run runs the model on in, in the order bound. An entry of out is a tensor of the fitting shape, which is written in
// place, or nil: then the slot is filled with a new tensor that the caller closes. A tensor that is reused must have
// the shape of this run, so set the slot to nil or keep one tensor for each batch size.
//
// A tensor that does not fit the model is an error of kind fault.Data and nothing runs. When ctx ends, the run is
// stopped at the next node and the error is that of ctx; tensors in out then hold anything.
func (c *Call) Run(ctx context.Context, in, out []*Tensor) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := c.s
	if !s.use() {
		return fault.New(fault.Internal, s.name, "the session is closed")
	}
	defer s.done()
	held, err := c.hold(in, out)
	defer release(held)
	if err != nil {
		return err
	}
	guessed, err := c.run(ctx, in, out, true)
	if err != nil && guessed && ctx.Err() == nil {
		_, err = c.run(ctx, in, out, false)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s: the run was stopped: %w", s.name, ctx.Err())
	}
	return err
}

// hold checks the tensors and keeps them from being freed until release.
func (c *Call) hold(in, out []*Tensor) (held []*Tensor, err error) {
	s := c.s
	if len(in) != len(c.in) || len(out) != len(c.out) {
		return nil, fault.New(fault.Internal, s.name, "%d input and %d output tensors; wanted %d and %d",
			len(in), len(out), len(c.in), len(c.out))
	}
	check := func(what string, t *Tensor, v Value) error {
		if !t.n.use() {
			return fault.New(fault.Internal, s.name, "the tensor for %s %s is closed", what, v)
		}
		held = append(held, t)
		if !fits(t.shape, v.Shape) {
			return fault.New(fault.Data, s.name, "%s %s is given a tensor of shape %v", what, v, t.shape)
		}
		return nil
	}
	for i, t := range in {
		v := s.inputs[c.in[i]]
		if t == nil {
			return held, fault.New(fault.Internal, s.name, "no tensor for input %s", v)
		}
		if err := check("input", t, v); err != nil {
			return held, err
		}
	}
	for i, t := range out {
		v := s.outputs[s.readable[c.out[i]]]
		if t == nil {
			continue
		}
		if slices.Contains(in, t) || slices.Contains(out[:i], t) {
			return held, fault.New(fault.Internal, s.name, "the tensor for output %s is given twice in one run", v)
		}
		if err := check("output", t, v); err != nil {
			return held, err
		}
	}
	return held, nil
}

func release(held []*Tensor) {
	for _, t := range held {
		t.n.done()
	}
}

// fits says whether a tensor's shape agrees with a declared one. No declared dimensions can mean a scalar and can
// mean that nothing is known, so then everything fits here.
func fits(shape, declared []int64) bool {
	if len(declared) == 0 {
		return true
	}
	if len(shape) != len(declared) {
		return false
	}
	for i, d := range declared {
		if d >= 0 && d != shape[i] {
			return false
		}
	}
	return true
}

// run makes the native values, runs, and takes the results over. The Go binding cannot give back a scalar that ONNX
// Runtime has allocated, so an output without dimensions is guessed to be one and allocated here. A guess that may
// have made the run fail is reported, and not made again.
func (c *Call) run(ctx context.Context, in, out []*Tensor, guess bool) (guessed bool, err error) {
	s := c.s
	var temporary []ort.Value
	defer func() {
		for _, v := range temporary {
			_ = v.Destroy()
		}
	}()
	scalar := func(value float32) (ort.Value, error) {
		v, err := ort.NewScalar(value)
		if err == nil {
			temporary = append(temporary, v)
		}
		return v, err
	}
	inputs, outputs := make([]ort.Value, len(s.inputs)), make([]ort.Value, len(s.readable))
	for i, t := range in {
		if t.n.value != nil {
			inputs[c.in[i]] = t.n.value
		} else if inputs[c.in[i]], err = scalar(t.data[0]); err != nil {
			return false, fault.New(fault.Internal, s.name, "%s", oneLine(err))
		}
	}
	for i, t := range out {
		if t != nil && t.n.value != nil {
			outputs[c.out[i]] = t.n.value
		} else if t != nil {
			if outputs[c.out[i]], err = scalar(0); err != nil {
				return false, fault.New(fault.Internal, s.name, "%s", oneLine(err))
			}
		}
	}
	for i, at := range s.readable {
		if outputs[i] != nil || len(s.outputs[at].Shape) > 0 || s.unranked[at].Load() {
			continue
		}
		if !guess {
			s.unranked[at].Store(true)
			continue
		}
		guessed = true
		if outputs[i], err = scalar(0); err != nil {
			return false, fault.New(fault.Internal, s.name, "%s", oneLine(err))
		}
	}
	given := slices.Clone(outputs)
	if err := s.native(ctx, inputs, outputs); err != nil {
		return guessed, err
	}
	return guessed, c.collect(given, outputs, out)
}

// native is the call into ONNX Runtime.
func (s *Session) native(ctx context.Context, inputs, outputs []ort.Value) error {
	options, stop, err := s.watch(ctx)
	if err != nil {
		return fault.New(fault.Internal, s.name, "%s", oneLine(err))
	}
	defer stop()
	err = s.session.RunWithOptions(inputs, outputs, options)
	if err == nil {
		return nil
	}
	text := oneLine(err)
	for _, sign := range []string{"Failed to allocate memory", "bad_alloc", "out of memory"} {
		if strings.Contains(text, sign) {
			return fault.New(fault.Internal, s.name, "not enough memory: %s", text).Do("use smaller batches")
		}
	}
	kind := fault.Data
	if s.provider != "cpu" {
		kind = fault.Internal
	}
	return fault.New(kind, s.name, "the run failed on provider %s: %s", s.provider, text)
}

// collect puts the results of a run into out and frees those that nobody wants.
func (c *Call) collect(given, outputs []ort.Value, out []*Tensor) (err error) {
	for i, v := range outputs {
		at := slices.Index(c.out, i)
		fresh := given[i] == nil
		switch v := v.(type) {
		case *ort.Scalar[float32]:
			if at >= 0 && out[at] == nil {
				if out[at], err = Float32(nil, nil); err != nil {
					return err
				}
			}
			if at >= 0 {
				out[at].data[0] = v.GetData()
			}
		case *ort.Tensor[float32]:
			if !fresh {
				continue
			}
			if at < 0 {
				_ = v.Destroy()
				continue
			}
			if out[at], err = adopt(v); err != nil {
				_ = v.Destroy()
				return err
			}
		}
	}
	return nil
}

// watch gives run options that stop a run when ctx ends. stop must be called after the run.
func (s *Session) watch(ctx context.Context) (options *ort.RunOptions, stop func(), err error) {
	if ctx.Done() == nil {
		return nil, func() {}, nil
	}
	if options, err = s.takeOptions(); err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		_ = options.Terminate()
		close(ended)
	})
	return options, func() {
		if !cancel() {
			<-ended
			_ = options.UnsetTerminate()
		}
		s.mu.Lock()
		s.spare = append(s.spare, options)
		s.mu.Unlock()
	}, nil
}

// takeOptions reuses run options: there are never more than runs at one time.
func (s *Session) takeOptions() (*ort.RunOptions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.spare); n > 0 {
		options := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return options, nil
	}
	options, err := ort.NewRunOptions()
	if err == nil {
		live.Add(1)
	}
	return options, err
}
