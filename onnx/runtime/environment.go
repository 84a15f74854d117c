package runtime

import (
	"sync"
	"sync/atomic"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/jempipe/jempipe/internal/fault"
)

// environment is ONNX Runtime's one environment of this process. It lives while a runtime, a session or a tensor does,
// in whatever order they are closed.
var environment struct {
	sync.Mutex
	users int
	path  string
}

var live atomic.Int64

// Live counts the native objects that are open: runtimes, sessions, tensors and options. It is 0 when everything was
// closed.
func Live() int { return int(live.Load()) }

// enter opens the environment on a library, or joins the one that is open already.
func enter(lib Library) error {
	environment.Lock()
	defer environment.Unlock()
	if environment.users > 0 && environment.path != lib.Path {
		return fault.New(fault.Internal, lib.Path, "this process already uses another library, %s", environment.path).
			Do("close every runtime, session and tensor of the first before opening the second")
	}
	if environment.users == 0 {
		var err error
		keepSignals(func() {
			ort.SetSharedLibraryPath(lib.Path)
			// Every failure comes back as an error, so that ONNX Runtime's own lines on standard error add nothing.
			err = ort.InitializeEnvironment(ort.WithLogLevelFatal())
		})
		if err != nil {
			return fault.New(fault.Internal, lib.Path, "ONNX Runtime %s does not start: %s", lib.Version, oneLine(err)).Do(remedy)
		}
		environment.path = lib.Path
	}
	environment.users++
	live.Add(1)
	return nil
}

// join adds a user to the environment that is open.
func join() error {
	environment.Lock()
	defer environment.Unlock()
	if environment.users == 0 {
		return fault.New(fault.Internal, "", "ONNX Runtime is not open").Do("open a runtime before making tensors")
	}
	environment.users++
	live.Add(1)
	return nil
}

// leave takes a user away; the last one closes the environment.
func leave() {
	environment.Lock()
	defer environment.Unlock()
	live.Add(-1)
	environment.users--
	if environment.users == 0 {
		_ = ort.DestroyEnvironment() // it can only fail in dlclose, and the library stays open anyway
	}
}

// lifetime guards a native object: it is freed once, when it is closed and nobody uses it any more.
type lifetime struct {
	mu     sync.Mutex
	users  int
	closed bool
	free   func()
}

// use keeps the object alive until done; false when it is closed.
func (l *lifetime) use() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.users++
	return true
}

func (l *lifetime) done() {
	l.mu.Lock()
	l.users--
	last := l.closed && l.users == 0
	l.mu.Unlock()
	if last {
		l.free()
	}
}

func (l *lifetime) close() {
	l.mu.Lock()
	now := !l.closed && l.users == 0
	l.closed = true
	l.mu.Unlock()
	if now {
		l.free()
	}
}
