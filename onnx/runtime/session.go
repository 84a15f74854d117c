package runtime

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/jempipe/jempipe/internal/fault"
)

// SessionOptions are what one session asks for.
type SessionOptions struct {
	Threads int    // 0: those of the runtime
	Name    string // names the model in errors: a file, or what it is for

	// Profile is where ONNX Runtime writes the times of all nodes, and what they ran on, when the session is closed:
	// to this path with a time stamp and .json behind. Empty: nowhere. It makes runs slower.
	Profile string

	// Without names graph optimisations that are left out, by ONNX Runtime's own names, beside those of the option
	// optimization.disable_specified_optimizers.
	Without []string

	saveTo string // file for the optimised model; empty: none
}

// Value describes an input or an output of a model.
type Value struct {
	Name  string
	Shape []int64 // -1 is a free dimension; empty for a scalar and where the model does not state the shape
	Type  string  // float32, uint8, int64, ...; sequence, map, ... for what is no tensor
}

// Session is a model that is loaded and ready to run. Several goroutines may run it at the same time.
type Session struct {
	lifetime
	name, provider  string
	inputs, outputs []Value
	metadata        map[string]string
	session         *ort.DynamicAdvancedSession

	// readable are the indices of the outputs that are float32 tensors: the native session gives these and no others,
	// so that an output of another type costs nothing.
	readable []int
	unranked []atomic.Bool // outputs without dimensions that turned out not to be scalars

	mu    sync.Mutex
	spare []*ort.RunOptions
}

// Session loads a model. The bytes are not kept. A model that ONNX Runtime refuses is an error of kind fault.Data
// with its message; one that only the provider refuses is of kind fault.Internal.
func (r *Runtime) Session(model []byte, opt SessionOptions) (*Session, error) {
	if !r.use() {
		return nil, fault.New(fault.Internal, opt.Name, "the runtime is closed")
	}
	defer r.done()
	return r.load(model, opt)
}

func (r *Runtime) load(model []byte, opt SessionOptions) (*Session, error) {
	if opt.Name == "" {
		opt.Name = "model"
	}
	if opt.Threads < 0 {
		return nil, fault.New(fault.Internal, opt.Name, "%d threads for a session", opt.Threads)
	}
	if opt.Threads == 0 {
		opt.Threads = r.info.Threads
	}
	if len(model) == 0 {
		return nil, fault.New(fault.Data, opt.Name, "an empty file, wanted an ONNX model")
	}
	if err := join(); err != nil {
		return nil, err
	}
	s := &Session{name: opt.Name, provider: r.provider.name}
	s.free = s.destroy
	if err := s.open(model, r, opt); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) open(model []byte, r *Runtime, opt SessionOptions) error {
	var err error
	if s.inputs, s.outputs, err = interfaceOf(model); err != nil {
		return refused(s.name, err)
	}
	s.unranked = make([]atomic.Bool, len(s.outputs))
	var in, out []string
	for _, v := range s.inputs {
		in = append(in, v.Name)
	}
	for i, v := range s.outputs {
		if v.Type == "float32" {
			s.readable = append(s.readable, i)
			out = append(out, v.Name)
		}
	}
	keepSignals(func() { err = s.create(model, in, out, r, opt) })
	if err != nil && r.provider.name == "cpu" {
		return refused(s.name, err)
	}
	if err != nil {
		return fault.New(fault.Internal, s.name, "provider %s cannot load it: %s", r.provider.name, oneLine(err)).
			Do("use provider cpu")
	}
	s.metadata, err = custom(s.session)
	if err != nil {
		return fault.New(fault.Data, s.name, "its metadata cannot be read: %s", oneLine(err))
	}
	return nil
}

func (s *Session) create(model []byte, in, out []string, r *Runtime, opt SessionOptions) error {
	options, err := configure(r.provider, without(r.options, opt.Without), opt.Threads)
	if err != nil {
		return err
	}
	defer options.Destroy()
	if err := save(options, opt.saveTo); err != nil {
		return err
	}
	if opt.Profile != "" {
		if err := options.EnableProfiling(opt.Profile); err != nil {
			return err
		}
	}
	s.session, err = ort.NewDynamicAdvancedSessionWithONNXData(model, in, out, options)
	return err
}

// refused is the error for a model that ONNX Runtime does not load.
func refused(name string, err error) error {
	text := oneLine(err)
	f := fault.New(fault.Data, name, "ONNX Runtime cannot load it: %s", text)
	if strings.Contains(text, "external data") || strings.Contains(text, "External data") {
		return f.Do("save the model with its weights inside the file")
	}
	return f
}

func describe(list []ort.InputOutputInfo) []Value {
	values := make([]Value, len(list))
	for i, v := range list {
		values[i] = Value{Name: v.Name, Shape: slices.Clone([]int64(v.Dimensions)), Type: typeName(v)}
	}
	return values
}

func typeName(v ort.InputOutputInfo) string {
	if v.OrtValueType != ort.ONNXTypeTensor {
		name := strings.TrimPrefix(v.OrtValueType.String(), "ONNX_TYPE_")
		return strings.ToLower(name)
	}
	name := strings.ToLower(strings.TrimPrefix(v.DataType.String(), "ONNX_TENSOR_ELEMENT_DATA_TYPE_"))
	switch name {
	case "float":
		return "float32"
	case "double":
		return "float64"
	}
	return name
}

// custom reads the model's metadata_props.
func custom(s *ort.DynamicAdvancedSession) (map[string]string, error) {
	m, err := s.GetModelMetadata()
	if err != nil {
		return nil, err
	}
	defer m.Destroy()
	keys, err := m.GetCustomMetadataMapKeys()
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(keys))
	for _, key := range keys {
		value, ok, err := m.LookupCustomMetadataMap(key)
		if err != nil {
			return nil, err
		}
		if ok {
			values[key] = value
		}
	}
	return values, nil
}

// Inputs describes the model's inputs, in its order.
func (s *Session) Inputs() []Value { return copied(s.inputs) }

// Outputs describes the model's outputs, in its order.
func (s *Session) Outputs() []Value { return copied(s.outputs) }

func copied(list []Value) []Value {
	list = slices.Clone(list)
	for i := range list {
		list[i].Shape = slices.Clone(list[i].Shape)
	}
	return list
}

// Metadata gives the model's metadata_props.
func (s *Session) Metadata() map[string]string { return maps.Clone(s.metadata) }

// Close gives the session back, after the runs that still use it. Closing twice does nothing.
func (s *Session) Close() error {
	s.close()
	return nil
}

func (s *Session) destroy() {
	for _, o := range s.spare {
		_ = o.Destroy()
		live.Add(-1)
	}
	s.spare = nil
	if s.session != nil {
		_ = s.session.Destroy()
	}
	leave()
}

// String is one value as a person writes it: x float32[?,64].
func (v Value) String() string {
	dims := make([]string, len(v.Shape))
	for i, d := range v.Shape {
		dims[i] = fmt.Sprint(d)
		if d < 0 {
			dims[i] = "?"
		}
	}
	return fmt.Sprintf("%s %s[%s]", v.Name, v.Type, strings.Join(dims, ","))
}
