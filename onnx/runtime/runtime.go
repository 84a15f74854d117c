// Package runtime runs ONNX models with ONNX Runtime: it finds the shared library, opens the one environment that a
// process has, chooses what to run on, and gives sessions and tensors that are checked before native code sees them.
//
// Its callers import it as ort. A short use:
//
//	r, err := ort.Open(ort.Config{}, nil)
//	s, err := r.Session(model, ort.SessionOptions{})
//	call, err := s.Bind([]string{"x"}, []string{"logits"})
//	x, err := ort.Float32([]int64{rows, 64}, values)
//	out := []*ort.Tensor{nil}
//	err = call.Run(ctx, []*ort.Tensor{x}, out)
//
// Everything that is opened must be closed; Live counts what is not.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
)

// Config says which library to use and what to run on.
type Config struct {
	Library  string // file of the shared library; empty: see Find
	Provider string // auto, cpu, cuda or tensorrt; empty is auto
	Threads  int    // threads of one session; 0: Cores()

	// Options are session configuration entries and provider options by ONNX Runtime's own names, and three more:
	// cpu_arena (0, 1), memory_pattern (0, 1) and graph_optimization (disable, basic, extended, all).
	//
	// Threads that wait for work spin, as is ONNX Runtime's default: on an idle machine this makes a loop of small
	// calls up to a third faster. On a machine or a CPU quota that is shared with other work it makes them several
	// times slower; set session.intra_op.allow_spinning to 0 there.
	Options map[string]string
}

// Info says what a runtime really uses.
type Info struct {
	Library  Library
	Provider string   // never auto
	Threads  int      // of a session that asks for no number of its own
	Notes    []string // why something that was tried first is not used
}

// Runtime opens sessions on one library and one provider. It can be used by several goroutines.
type Runtime struct {
	lifetime
	info     Info
	provider provider
	options  map[string]string
}

// Cores is the number of CPU cores that this process may use: by its affinity, by the quota of its control group, and
// by GOMAXPROCS.
func Cores() int { return min(goruntime.GOMAXPROCS(0), goruntime.NumCPU()) }

// Open finds the library, opens the environment and chooses the provider. Auto takes an accelerator only when a small
// model really runs on it, and says in the notes why it takes the CPU; a provider that is asked for by name and does
// not work is an error of kind fault.Internal. Names and option keys that are not known are of kind fault.Config.
// log may be nil. The environment stays until the runtime and its sessions and tensors are closed; all runtimes that
// are open at one time must use the same library.
func Open(cfg Config, log *slog.Logger) (*Runtime, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if problems := CheckConfig(cfg); len(problems) > 0 {
		return nil, fault.New(fault.Config, "onnxruntime", "%s", strings.Join(problems, "; "))
	}
	lib, err := Find(cfg.Library)
	if err != nil {
		return nil, err
	}
	if err := enter(lib); err != nil {
		return nil, err
	}
	r := &Runtime{
		info:    Info{Library: lib, Threads: cfg.Threads},
		options: maps.Clone(cfg.Options),
	}
	r.free = leave
	if r.info.Threads == 0 {
		r.info.Threads = Cores()
	}
	for _, passed := range lib.Passed {
		log.Warn("a library of ONNX Runtime is passed over", "library", passed)
		r.info.Notes = append(r.info.Notes, "passed over "+passed)
	}
	if err := r.choose(cfg.Provider, log); err != nil {
		r.Close()
		return nil, err
	}
	log.Info("ONNX Runtime is open", "version", lib.Version, "library", lib.Path, "source", lib.Source,
		"provider", r.info.Provider, "threads", r.info.Threads)
	return r, nil
}

// choose settles the provider by running a small model on it.
func (r *Runtime) choose(name string, log *slog.Logger) error {
	lib := r.info.Library
	if name != "" && name != Auto {
		p, _ := lookup(name)
		if err := probe(lib, p, r.options); err != nil {
			return fault.New(fault.Internal, "provider "+name, "does not work with ONNX Runtime %s (%s): %s", lib.Version, lib.Path, reason(err)).
				Do("%s", p.advice)
		}
		r.provider, r.info.Provider = p, name
		return nil
	}
	for _, p := range providers {
		if !p.automatic {
			continue
		}
		err := probe(lib, p, r.options)
		if err == nil {
			r.provider, r.info.Provider = p, p.name
			return nil
		}
		level := slog.LevelWarn
		if errors.Is(err, errAbsent) {
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "a provider is not used", "provider", p.name, "reason", reason(err))
		r.info.Notes = append(r.info.Notes, fmt.Sprintf("provider %s is not used: %s", p.name, reason(err)))
	}
	return fault.New(fault.Internal, lib.Path, "no provider works: %s", strings.Join(r.info.Notes, "; ")).Do(remedy)
}

// reason is what a failed probe says, without its place and remedy.
func reason(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		_, text, _ := strings.Cut(f.What, "cannot load it: ")
		return cmp.Or(text, f.What)
	}
	return oneLine(err)
}

// Info says what the runtime really uses.
func (r *Runtime) Info() Info {
	info := r.info
	info.Notes = slices.Clone(info.Notes)
	return info
}

// Close gives the runtime back; its open sessions and tensors stay usable. Closing twice does nothing.
func (r *Runtime) Close() error {
	r.close()
	return nil
}
