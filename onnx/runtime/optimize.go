package runtime

import (
	"maps"
	"os"
	"path/filepath"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/jempipe/jempipe/internal/fault"
)

// Optimize gives a model as ONNX Runtime runs it on this machine after its graph optimisations: constants folded,
// operators fused, the weights of convolutions in the layout of its kernels. The result holds operators of the
// library's own and is for the same library, on the same kind of processor, only. opt.Threads is not used.
//
// The errors are those of Session; a temporary folder that cannot be written is one of kind fault.Internal.
func (r *Runtime) Optimize(model []byte, opt SessionOptions) ([]byte, error) {
	if !r.use() {
		return nil, fault.New(fault.Internal, opt.Name, "the runtime is closed")
	}
	defer r.done()
	dir, err := os.MkdirTemp("", "jempipe-optimize-")
	if err != nil {
		return nil, fault.New(fault.Internal, opt.Name, "no folder for the optimised model: %s", oneLine(err)).
			Do("point TMPDIR to a folder that can be written")
	}
	defer os.RemoveAll(dir)
	opt.Threads, opt.saveTo = 1, filepath.Join(dir, "model.onnx")
	s, err := r.load(model, opt)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(opt.saveTo)
	if err != nil {
		return nil, fault.New(fault.Internal, opt.Name, "ONNX Runtime did not write the optimised model: %s", oneLine(err)).
			Do("see that %s has room for a file of the model's size", filepath.Dir(dir))
	}
	return data, nil
}

// save makes a session write its optimised model to a file.
func save(o *ort.SessionOptions, path string) error {
	if path == "" {
		return nil
	}
	return o.SetOptimizedModelFilePath(path)
}

const disabled = "optimization.disable_specified_optimizers"

// without adds optimisations to those that options leave out.
func without(options map[string]string, names []string) map[string]string {
	if len(names) == 0 {
		return options
	}
	options = maps.Clone(options)
	if options == nil {
		options = map[string]string{}
	}
	list := strings.Join(names, ";")
	if given := options[disabled]; given != "" {
		list = given + ";" + list
	}
	options[disabled] = list
	return options
}
