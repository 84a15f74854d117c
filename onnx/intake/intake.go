// Package intake takes in classifiers that others trained: it finds in an ONNX file what plays the part of the logits,
// frees the batch size, builds the preprocessing in, and gives a model of the form that package lower gives, so that
// everything behind it need not care where a model comes from. What it assumes of a file it proves on a probe batch.
package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// Kinds of what a model gives, for Config.Output.
const (
	Auto          = "auto"
	Logits        = "logits"
	Probabilities = "probabilities"
)

// Config says what is known of a model. The zero value has everything found out.
type Config struct {
	Input    string // input that takes the samples; empty: the only one
	Output   string // value with the logits or probabilities; empty: found
	Kind     string // whether Output holds logits or probabilities; empty or auto: found
	Features string // value [N, F] or [N, ...] for feature-based detectors; empty: the input of the last dense layer
	// Preprocess is the map from raw samples to the model's input. SampleShape must be set; the rest may be left out for
	// the identity.
	Preprocess lower.Preprocess
}

// Classifier is a model in the form of lower.Classifier.
type Classifier struct {
	// Model has the input x, float32 [N, SampleShape...], and the outputs logits [N, K], energy [N] unless EnergyReason
	// says why not, and features [N, F] where there are any. N is the free batch axis, or Batch.
	Model      *onnxpb.ModelProto
	Preprocess lower.Preprocess
	Input      []int  // shape of a sample in model space
	Space      string // name of the value in model space
	Classes    int
	Names      []string // of the classes, where the file has them
	Batch      int      // the only batch size that the model takes; 0: any
	Freed      int      // batch size that the file had built in and that is free now; 0: none
	From       string   // how the logits were found, for a person
	// EnergyReason says why there is no energy; empty where there is.
	EnergyReason string
	Features     int      // F; 0 where there are none
	Head         *Head    // the dense layer behind the features, where the file has its weights
	Notes        []string // what else a person should know

	source string // value of the file that the logits are made of
	form   form
}

// ProbabilitiesOnly is the EnergyReason of a model that gives probabilities and no logits: their log-sum-exp is 0 for
// every sample, so that they hold no density.
const ProbabilitiesOnly = "probabilities_only"

// Open reads the model at path and proves on the rows of probe, raw samples one after another, that what it made of it
// gives what the file gives. Errors are of kind fault.Data and name the file, and the node where one is to blame.
func Open(ctx context.Context, rt *ort.Runtime, path string, cfg Config, probe []float32) (*Classifier, error) {
	m, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Adapt(ctx, rt, path, m, cfg, probe)
}

// adapter is one model on its way.
type adapter struct {
	rt    *ort.Runtime
	file  string
	cfg   Config
	probe []float32
	rows  int
	width int // values of a raw sample
	m     *onnxpb.ModelProto
	g     *ir.Graph
	c     *Classifier

	names    map[string]string // values of the file that had to give way to names of this package
	input    string            // name of the input
	batch    int               // that the file states; 0: free
	assumed  int               // batch size where the file states none; 0: free
	answer   string            // value that the file gives out
	logits   string            // value in front of a final softmax or sigmoid, else the answer
	last     *onnxpb.NodeProto // the softmax or sigmoid at the end; nil where there is none
	form     form
	features string // value
}

// Adapt is Open for a model that Read has given, which it changes; name is that of the file in errors.
func Adapt(ctx context.Context, rt *ort.Runtime, name string, m *onnxpb.ModelProto, cfg Config, probe []float32) (*Classifier, error) {
	width := size(cfg.Preprocess.SampleShape)
	if width < 1 || len(probe) < 2*width || len(probe)%width != 0 {
		return nil, fault.New(fault.Internal, name, "%d values for a probe of samples of shape %v, want two samples or more", len(probe), cfg.Preprocess.SampleShape)
	}
	a := &adapter{rt: rt, file: name, cfg: cfg, probe: probe, rows: len(probe) / width, width: width}
	c, err := a.adapt(ctx, clone(m), true)
	var solo *soloError
	if a.batch == 0 && errors.As(err, &solo) && ctx.Err() == nil { // the free axis that it states is no more than a name
		a.assumed = 1
		c, err = a.adapt(ctx, clone(m), true)
	}
	var stuck *stuckError
	if errors.As(err, &stuck) && ctx.Err() == nil {
		if c, err = a.adapt(ctx, m, false); err == nil {
			c.Notes = append(c.Notes, fmt.Sprintf("it runs in batches of %d, which are built in: %v", c.Batch, plain(stuck.err)))
		}
	}
	if _, known := err.(*fault.Error); err == nil || known || ctx.Err() != nil {
		return c, err
	}
	return nil, fault.New(fault.Data, name, "%v", err)
}

// soloError says why a model with a free batch axis does not run in batches.
type soloError struct{ err error }

func (e *soloError) Error() string { return e.err.Error() }

// Unwrap gives the cause, which may be that the caller stopped the work.
func (e *soloError) Unwrap() error { return e.err }

// stuckError says why the batch size of a file could not be freed.
type stuckError struct{ err error }

func (e *stuckError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *stuckError) Unwrap() error { return e.err }

// adapt goes through the steps, with the batch size of the file freed or kept.
func (a *adapter) adapt(ctx context.Context, m *onnxpb.ModelProto, free bool) (*Classifier, error) {
	var err error
	a.c, a.m, a.names, a.last = &Classifier{Preprocess: a.cfg.Preprocess}, m, map[string]string{}, nil
	a.input, a.batch, a.features, a.form = lower.InputX, 0, "", formLogits
	if a.g, err = ir.NewGraph(m); err != nil {
		return nil, err
	}
	for _, step := range []func() error{a.takeInput, a.findOutput, a.findFeatures} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	truth, err := a.run(ctx, a.m, a.batch, []string{a.answer, a.logits, a.features})
	if err != nil {
		return nil, err
	}
	a.c.Notes = append(a.c.Notes, noteDropped(dropSubnormals(a.m))...)
	if err := a.settle(truth); err != nil {
		return nil, err
	}
	a.c.source, a.c.form = a.original(a.logits), a.form
	if a.batch == 0 || !free {
		a.c.Batch = a.batch
		return a.c, a.complete(ctx, truth)
	}
	if err = a.foldSizes(ctx); err == nil {
		a.freeBatch()
		a.c.Freed = a.batch
		err = a.complete(ctx, truth)
	}
	if err != nil {
		return nil, &stuckError{err}
	}
	return a.c, nil
}

// complete gives the model its outputs and proves them.
func (a *adapter) complete(ctx context.Context, truth []result) error {
	if err := a.finish(truth); err != nil {
		return err
	}
	return a.prove(ctx, truth)
}

// Read reads a model file, its external data included, and checks that ONNX Runtime and this package can work with it:
// the graph is sound, functions are written out, the operator set is known, operators come from domains that exist.
// Weights too small to matter become 0.
func Read(path string) (*onnxpb.ModelProto, error) {
	m, err := ir.LoadFile(path)
	if err != nil {
		return nil, fault.New(fault.Data, "", "%v", err) // which names the file
	}
	return m, prepare(path, m)
}

// prepare does what Read does behind the reading.
func prepare(path string, m *onnxpb.ModelProto) error {
	bad := func(err error) error { return fault.New(fault.Data, path, "%v", err) }
	if err := ir.Check(m); err != nil {
		return bad(err)
	}
	if v := ir.Opset(m); v > 0 && v < minOpset {
		return fault.New(fault.Data, path, "it is written against operator set %d; ONNX Runtime takes %d and later", v, minOpset).
			Do("export it anew, or convert it with ONNX's version converter")
	}
	if err := ir.Inline(m); err != nil {
		return bad(err)
	}
	if err := foreign(m.Graph.Node); err != nil {
		return fault.New(fault.Data, path, "%v", err).Do("export the model with standard operators only")
	}
	ir.FreeInitializers(m)
	m.IrVersion = max(m.IrVersion, 4) // before, constants had to be inputs as well
	return nil
}

// minOpset is the oldest operator set that ONNX Runtime promises to run.
const minOpset = 7

// domains are those whose operators ONNX Runtime has built in.
var domains = []string{"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}

// foreign reports operators that no ONNX Runtime knows.
func foreign(nodes []*onnxpb.NodeProto) error {
	for _, n := range nodes {
		if !slices.Contains(domains, n.GetDomain()) {
			return fmt.Errorf("%s: ONNX Runtime has no operators of domain %s", ir.Describe(n), n.GetDomain())
		}
		for _, sub := range ir.Subgraphs(n) {
			if err := foreign(sub.GetNode()); err != nil {
				return err
			}
		}
	}
	return nil
}
