package outputs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
)

// filesPerResult is how many files a test result has; all of them hold the same generation number.
const filesPerResult = 6

func writeResult(t testing.TB, dir string, generation int) {
	t.Helper()
	for i := range filesPerResult {
		name := filepath.Join(dir, "tables", fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strconv.Itoa(generation)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// generation reads a result and fails when it is not whole; -1 where there is none.
func generation(t testing.TB, dir string) int {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return -1
	}
	seen := -1
	for i := range filesPerResult {
		data, err := os.ReadFile(filepath.Join(dir, "tables", fmt.Sprint(i)))
		if err != nil {
			t.Fatalf("the result is not whole: %v", err)
		}
		n, err := strconv.Atoi(string(data))
		if err != nil || i > 0 && n != seen {
			t.Fatalf("file %d is of generation %q, the others of %d", i, data, seen)
		}
		seen = n
	}
	return seen
}

// names are the entries of a directory, hidden ones too.
func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func noExchange(a, b string) error { return errors.ErrUnsupported }

func TestCommitReplacesTheFormerResult(t *testing.T) {
	for _, swap := range []func(a, b string) error{exchange, noExchange} {
		root := t.TempDir()
		final := filepath.Join(root, "run", "infer")
		for g := range 3 {
			d, err := Begin(final)
			if err != nil {
				t.Fatal(err)
			}
			d.swap = swap
			writeResult(t, d.Path(), g)
			if got := generation(t, final); got != g-1 {
				t.Errorf("before the commit the result is %d, want %d", got, g-1)
			}
			if err := d.Commit(); err != nil {
				t.Fatal(err)
			}
			d.Abort()
			if got := generation(t, final); got != g {
				t.Errorf("after the commit the result is %d, want %d", got, g)
			}
			if got := names(t, filepath.Dir(final)); got != "infer" {
				t.Errorf("left beside the result: %s", got)
			}
			if d.Commit() == nil {
				t.Error("a second commit is accepted")
			}
		}
	}
}

func TestAbortLeavesTheFormerResult(t *testing.T) {
	final := filepath.Join(t.TempDir(), "infer")
	writeResult(t, final, 7)
	d, err := Begin(final)
	if err != nil {
		t.Fatal(err)
	}
	writeResult(t, d.Path(), 8)
	if _, err := Begin(final); err == nil {
		t.Error("two writers of one directory are accepted")
	}
	d.Abort()
	d.Abort()
	if got := generation(t, final); got != 7 {
		t.Errorf("result %d, want 7", got)
	}
	if got := names(t, filepath.Dir(final)); got != "infer" {
		t.Errorf("left: %s", got)
	}
}

// deadPID is the pid of a process that has ended.
func deadPID(t testing.TB) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	return cmd.Process.Pid
}

func TestRecover(t *testing.T) {
	gone, us, parent := deadPID(t), os.Getpid(), os.Getppid()
	for _, c := range []struct {
		name  string
		start map[string]int // directory to generation
		want  int
		left  string
	}{
		{"nothing there", map[string]int{}, -1, ""},
		{"killed while writing", map[string]int{"s": 1, fmt.Sprintf(".s.tmp-%d", gone): 2}, 1, "s"},
		{"killed while writing the first", map[string]int{fmt.Sprintf(".s.tmp-%d", gone): 2}, -1, ""},
		{"killed between two renames", map[string]int{fmt.Sprintf(".s.old-%d", gone): 1, fmt.Sprintf(".s.tmp-%d", gone): 2}, 1, "s"},
		{"killed before removing the old", map[string]int{"s": 2, fmt.Sprintf(".s.old-%d", gone): 1}, 2, "s"},
		{"a dead process had our pid", map[string]int{"s": 1, fmt.Sprintf(".s.tmp-%d", us): 2}, 1, "s"},
		{"another writer lives", map[string]int{"s": 1, fmt.Sprintf(".s.tmp-%d", parent): 2}, 1, fmt.Sprintf(".s.tmp-%d s", parent)},
		{"somebody else's names", map[string]int{"s": 1, ".s.tmp-x": 2, ".s.tmp-": 2, fmt.Sprintf(".st.tmp-%d", gone): 2}, 1,
			fmt.Sprintf(".s.tmp- .s.tmp-x .st.tmp-%d s", gone)},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, g := range c.start {
				writeResult(t, filepath.Join(root, name), g)
			}
			final := filepath.Join(root, "s")
			if err := Recover(final); err != nil {
				t.Fatal(err)
			}
			if got := generation(t, final); got != c.want {
				t.Errorf("result %d, want %d", got, c.want)
			}
			if got := names(t, root); got != c.left {
				t.Errorf("left %q, want %q", got, c.left)
			}
		})
	}
}

// TestKill ends a process that commits one generation after the other with SIGKILL at many moments.
func TestKill(t *testing.T) {
	if final := os.Getenv("JEMPIPE_TEST_COMMIT"); final != "" {
		commitForever(t, final, os.Getenv("JEMPIPE_TEST_SWAP") == "no")
		return
	}
	for _, swap := range []string{"yes", "no"} {
		t.Run("exchange "+swap, func(t *testing.T) {
			final := filepath.Join(t.TempDir(), "infer")
			last := -1
			for round := range 12 {
				cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
				cmd.Env = append(os.Environ(), "JEMPIPE_TEST_COMMIT="+final, "JEMPIPE_TEST_SWAP="+swap)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(20+7*round) * time.Millisecond)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if err := Recover(final); err != nil {
					t.Fatal(err)
				}
				got := generation(t, final)
				if got < last {
					t.Fatalf("after generation %d comes %d", last, got)
				}
				last = got
				if got := names(t, filepath.Dir(final)); got != "" && got != "infer" {
					t.Fatalf("left after recovery: %s", got)
				}
			}
			if last < 0 {
				t.Error("the child never committed anything")
			}
		})
	}
}

func commitForever(t *testing.T, final string, two bool) {
	next := generation(t, final) + 1
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); next++ {
		d, err := Begin(final)
		if err != nil {
			t.Fatal(err)
		}
		if two {
			d.swap = noExchange
		}
		writeResult(t, d.Path(), next)
		if err := d.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnwritablePlacesAreNamed(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, underFile := Begin(filepath.Join(file, "infer"))
	d, err := Begin(file)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Abort()
	_, create := Create[ROC](filepath.Join(file, "roc.parquet"), nil)
	for name, err := range map[string]error{
		"under a file": underFile,
		"onto a file":  d.Commit(),
		"table":        create,
		"atomic file":  WriteFileAtomic(filepath.Join(file, "run.json"), nil),
	} {
		if err == nil || fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), root) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v: want an internal fault with the path and a remedy", name, err)
		}
	}
}

func TestWriteFileAtomic(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "run.json")
	left := filepath.Join(root, fmt.Sprintf(".run.json.tmp-%d", deadPID(t)))
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"{}", `{"a":1}`} {
		if err := WriteFileAtomic(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got := names(t, root); got != "run.json" {
		t.Errorf("left: %s", got)
	}
}
