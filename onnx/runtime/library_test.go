package runtime

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jempipe/jempipe/internal/fault"
)

// A shared library that claims to be a version of ONNX Runtime. It offers the C API up to the version given, and
// replaces a signal handler when it is loaded, as libraries of accelerators do.
const fakeLibrary = `
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
struct base { const void *(*get_api)(uint32_t); const char *(*get_version)(void); };
static int api;
static const void *get_api(uint32_t version) { return version <= API ? &api : NULL; }
static const char *get_version(void) { return VERSION; }
static const struct base base = {get_api, get_version};
const struct base *ENTRY(void) { return &base; }
static void die(int signal) { _Exit(99); }
__attribute__((constructor)) static void steal(void) { signal(SIGUSR2, die); }
`

// compile makes a fake library. The test is skipped where there is no C compiler.
func compile(t *testing.T, file, version, api, entry string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler (cc), so no library can be made to refuse")
	}
	source := file + ".c"
	if err := os.WriteFile(source, []byte(fakeLibrary), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cc, "-shared", "-fPIC", "-DVERSION=\""+version+"\"", "-DAPI="+api, "-DENTRY="+entry, "-o", file, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

func TestGivenLibraryIsUsedOrRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	old := compile(t, path("old.so"), "1.17.0", "17", "OrtGetApiBase")
	poor := compile(t, path("poor.so"), "1.99.0", "17", "OrtGetApiBase")
	other := compile(t, path("other.so"), "1.30.0", "24", "SomethingElse")
	text := path("text.so")
	if err := os.WriteFile(text, []byte("not a library\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := path("folder")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	inside := compile(t, filepath.Join(full, "libonnxruntime.so.1"), "1.30.0", "24", "OrtGetApiBase")

	for _, c := range []struct{ path, what, do string }{
		{old, "ONNX Runtime 1.17.0 is too old, wanted 1.24 or newer", ""},
		{poor, "ONNX Runtime 1.99.0 does not offer version 24 of the C API", ""},
		{other, "it is a shared library, but not ONNX Runtime (it has no OrtGetApiBase)", ""},
		{text, "cannot be loaded as a shared library: ", ""},
		{path("missing.so"), "no such file", ""},
		{dir, "a folder; wanted the file of the library", ""},
		{full, "a folder; wanted the file of the library", "give " + inside},
	} {
		for by, find := range map[string]func() (Library, error){
			"--onnxruntime": func() (Library, error) { return Find(c.path) },
			Environment: func() (Library, error) {
				t.Setenv(Environment, c.path)
				return Find("")
			},
		} {
			t.Setenv(Environment, "")
			lib, err := find()
			if err == nil {
				t.Errorf("%s %s gives %+v", by, c.path, lib)
				continue
			}
			do := c.do
			if do == "" {
				do = "leave " + by + " out and run `make onnxruntime`, or give the file of version 1.24 or newer"
			}
			text := err.Error()
			if !strings.HasPrefix(text, by+" "+c.path+": "+c.what) || !strings.HasSuffix(text, "; "+do) ||
				strings.Contains(text, "\n") || fault.KindOf(err) != fault.Internal {
				t.Errorf("%s: %v", by, err)
			}
		}
	}

	good := compile(t, path("good.so"), "1.24.1", "24", "OrtGetApiBase")
	t.Setenv(Environment, old) // the flag comes first
	if lib, err := Find(good); err != nil || lib.Path != good || lib.Source != "flag" || lib.Version != "1.24.1" {
		t.Errorf("%+v, %v", lib, err)
	}
	t.Setenv(Environment, good)
	if lib, err := Find(""); err != nil || lib.Path != good || lib.Source != "environment" {
		t.Errorf("%+v, %v", lib, err)
	}
	t.Chdir(dir)
	if lib, err := Find("good.so"); err != nil || lib.Path != good {
		t.Errorf("a relative path: %+v, %v", lib, err)
	}
}

func TestSearchPassesOverWhatDoesNotFit(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("the names of the cached libraries are those of Linux")
	}
	dir := t.TempDir()
	t.Setenv(Environment, "")
	t.Setenv("XDG_CACHE_HOME", dir)
	if err := os.MkdirAll(filepath.Dir(cached()), 0o700); err != nil {
		t.Fatal(err)
	}
	compile(t, cached(), "1.17.0", "17", "OrtGetApiBase")
	lib, err := Find("")
	if err == nil { // the system has one
		if lib.Source != "system" || len(lib.Passed) != 1 || !strings.Contains(lib.Passed[0], "1.17.0 is too old") {
			t.Errorf("%+v", lib)
		}
	} else if !strings.Contains(err.Error(), cached()+" (cache): ONNX Runtime 1.17.0 is too old, wanted 1.24") || !strings.HasSuffix(err.Error(), remedy) {
		t.Error(err)
	}
}

func TestLoadingKeepsSignalHandlers(t *testing.T) {
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGUSR2)
	defer signal.Stop(arrived)
	if _, err := Find(compile(t, filepath.Join(t.TempDir(), "thief.so"), "1.30.0", "24", "OrtGetApiBase")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(5 * time.Second):
		t.Error("the signal did not arrive")
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		version, wanted string
		want            bool
	}{
		{"1.24.0", "1.24", true}, {"1.24", "1.24", true}, {"1.30.0", "1.24", true}, {"1.9.1", "1.24", false}, {"1.23.2", "1.24", false},
		{"2.0.0", "1.24", true}, {"1.25.0-dev", "1.24", true}, {"1.24rc1", "1.24", true}, {"0.9", "1.24", false}, {"1", "1.24", false},
		{"", "1.24", false}, {"x.y", "1.24", false},
	} {
		if got := atLeast(c.version, c.wanted); got != c.want {
			t.Errorf("atLeast(%q, %q) = %v", c.version, c.wanted, got)
		}
	}
}

func TestFolderOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"libonnxruntime.so.1.9.0", "libonnxruntime.so.1.30.0", "libonnxruntime.so.1", "libonnxruntime_providers_cuda.so", "libonnxruntime.so"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, file := range inFolder(dir) {
		got = append(got, filepath.Base(file))
	}
	want := "libonnxruntime.so libonnxruntime.so.1 libonnxruntime.so.1.30.0 libonnxruntime.so.1.9.0"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}
