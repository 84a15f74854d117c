package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jempipe/jempipe/internal/fault"
)

// lockRun takes the run directory for this process, making it where it is missing. The lock ends with the process, so a
// dead one leaves none. The error of a directory in use names the process that holds it.
func lockRun(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, unwritable(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fault.New(fault.Internal, dir, "another run is using this directory%s", holder(f)).
				Do("wait for it, or give this run another name")
		}
		return nil, fault.New(fault.Internal, dir, "the directory cannot be locked").Because(err).
			Do("use a file system that knows flock")
	}
	if err := probe(dir); err != nil {
		f.Close()
		return nil, unwritable(dir, err)
	}
	if f.Truncate(0) == nil {
		// The pid only serves the message for the next process.
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return func() {
		_ = f.Truncate(0)
		f.Close()
	}, nil
}

func holder(f *os.File) string {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid := strings.TrimSpace(string(buf[:n]))
	if pid == "" {
		return ""
	}
	return fmt.Sprintf(" (process %s)", pid)
}

// probe finds out whether files can be made in a directory.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func unwritable(dir string, err error) error {
	return fault.New(fault.Internal, dir, "the run directory cannot be written").Because(cause(err)).
		Do("make it writable, or set output: to another folder")
}
