package outputs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/jempipe/jempipe/internal/fault"
)

// Dir is a directory that is being filled and gets its final name in one step. Whatever happens before that step, the
// final name holds what it held before: nothing, or the complete former result.
//
//	d, err := outputs.Begin("runs/a/infer")
//	defer d.Abort() // does nothing after Commit
//	...write below d.Path()...
//	err = d.Commit()
type Dir struct {
	final, temp string
	lock        *os.File // the temporary directory, held with flock while this process lives
	swap        func(a, b string) error
	done        bool
}

// mine are the temporary directories of this process, which may have the same pid as a dead one.
var mine sync.Map

// Begin makes a hidden temporary directory beside final, .NAME.tmp-PID, after putting right what dead processes left
// there (see Recover). The parent of final is made where it is missing.
func Begin(final string) (*Dir, error) {
	final, err := filepath.Abs(final)
	if err != nil {
		return nil, unwritable(final, err)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return nil, unwritable(final, err)
	}
	if err := Recover(final); err != nil {
		return nil, err
	}
	temp := hidden(final, "tmp")
	if _, taken := mine.LoadOrStore(temp, true); taken {
		return nil, fault.New(fault.Internal, final, "this process is already writing it")
	}
	lock, err := makeLocked(temp)
	if err != nil {
		mine.Delete(temp)
		return nil, unwritable(final, err)
	}
	return &Dir{final: final, temp: temp, lock: lock, swap: exchange}, nil
}

func makeLocked(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	// Where the file system knows no flock, the pid in the name still tells whether the owner lives.
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return lock, nil
}

// Path is a place in the temporary directory; Path() is the directory itself. The directories above it are not made.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.temp}, elem...)...)
}

// Commit syncs every file and directory to disk and gives the directory its final name. A former result stays in
// place until then and is removed after. On error the former result is in place and Abort is still due.
func (d *Dir) Commit() error {
	if d.done {
		return fault.New(fault.Internal, d.final, "committed or aborted already")
	}
	if err := syncTree(d.temp); err != nil {
		return unwritable(d.final, err)
	}
	old, err := replace(d.temp, d.final, d.swap)
	if err != nil {
		return unwritable(d.final, err)
	}
	defer d.release()
	if err := syncDir(filepath.Dir(d.final)); err != nil {
		return unwritable(d.final, err)
	}
	if old != "" {
		// The new result is complete; a leftover is removed by the next Begin.
		_ = os.RemoveAll(old)
	}
	return nil
}

// Abort removes the temporary directory. After Commit or Abort it does nothing.
func (d *Dir) Abort() {
	if d == nil || d.done {
		return
	}
	_ = os.RemoveAll(d.temp)
	d.release()
}

func (d *Dir) release() {
	d.done = true
	d.lock.Close()
	mine.Delete(d.temp)
}

// replace gives temp the name final and says where the former final went; "" where there was none. swap exchanges two
// names in one step, or fails and changes nothing.
func replace(temp, final string, swap func(a, b string) error) (old string, err error) {
	info, err := os.Lstat(final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", os.Rename(temp, final)
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("is a %s, wanted a directory or nothing", kindOf(info))
	}
	if swap(temp, final) == nil {
		return temp, nil
	}
	return replaceByTwo(temp, final)
}

// replaceByTwo replaces a directory where the file system cannot exchange two names in one step. Between its renames
// the final name is missing; Recover knows the former result by its name.
func replaceByTwo(temp, final string) (old string, err error) {
	old = hidden(final, "old")
	if err := os.Rename(final, old); err != nil {
		return "", err
	}
	if err := syncDir(filepath.Dir(final)); err != nil {
		return "", errors.Join(err, os.Rename(old, final))
	}
	if err := os.Rename(temp, final); err != nil {
		return "", errors.Join(err, os.Rename(old, final))
	}
	return old, nil
}

// Recover puts right what processes that died left beside final: a former result that was moved aside gets its name
// back when final is missing, and temporary directories are removed. Those of live processes are left alone. Begin
// calls it; call it before reading final where nothing is to be written.
func Recover(final string) error {
	final, err := filepath.Abs(final)
	if err != nil {
		return unwritable(final, err)
	}
	parent, base := filepath.Split(final)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unreadable(parent, err)
	}
	for _, kind := range []string{"old", "tmp"} {
		prefix := "." + base + "." + kind + "-"
		for _, e := range entries {
			pid, ok := strings.CutPrefix(e.Name(), prefix)
			left := filepath.Join(parent, e.Name())
			if !ok || !e.IsDir() || !dead(left, pid) {
				continue
			}
			if err := settle(left, final, kind); err != nil {
				return unwritable(final, err)
			}
		}
	}
	return nil
}

// settle deals with one leftover of a dead process.
func settle(left, final, kind string) error {
	if _, err := os.Lstat(final); kind == "old" && errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(left, final); err != nil {
			return err
		}
		return syncDir(filepath.Dir(final))
	}
	return os.RemoveAll(left)
}

// dead says whether the process that made a hidden directory is gone: nobody holds its lock, and the pid in its name
// is free or is ours without being of our making (in a container every run may have the same pid).
func dead(dir, pidText string) bool {
	pid, err := strconv.Atoi(pidText)
	if err != nil || pid <= 0 {
		return false
	}
	if _, ours := mine.Load(dir); ours {
		return false
	}
	if pid != os.Getpid() && alive(pid) {
		return false
	}
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	return !errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// hidden is the name beside final that this process uses for one purpose.
func hidden(final, purpose string) string {
	parent, base := filepath.Split(final)
	return filepath.Join(parent, fmt.Sprintf(".%s.%s-%d", base, purpose, os.Getpid()))
}

func kindOf(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "symbolic link"
	case info.Mode().IsRegular():
		return "file"
	}
	return "special file"
}
