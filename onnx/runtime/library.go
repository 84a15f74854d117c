package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
)

const (
	// Environment is the variable that names the library's file.
	Environment = "JEMPIPE_ONNXRUNTIME"
	// Pinned is the version that make puts into the cache.
	Pinned = "1.30.0"

	// The Go binding is compiled against one version of the C API, and every library offers its own and all older ones.
	apiVersion = 24
	oldest     = "1.24"
	remedy     = "run `make onnxruntime`, or set " + Environment + "=/path/to/libonnxruntime.so (version " + oldest + " or newer)"
	// A library that was named stands in the way of the one that make fetches.
	remedyNamed = "leave %s out and run `make onnxruntime`, or give the file of version " + oldest + " or newer"
)

// Library is a shared library of ONNX Runtime that fits.
type Library struct {
	Path    string   // absolute path of the file
	Source  string   // where it was found: flag, environment, beside the binary, cache, system
	Version string   // its own version, such as 1.30.0
	Passed  []string // libraries found earlier in the order and not used, with the reason
}

// Find looks for the library and gives the first that fits, in this order: the file named by explicit, by the
// variable JEMPIPE_ONNXRUNTIME, a file beside the binary, the cache that make fills, the system loader.
//
// A file that is named by explicit or by the variable is used or refused: no other place is tried then. An error is of
// kind fault.Internal and says what was found, what is wanted and what to do.
func Find(explicit string) (Library, error) {
	if explicit != "" {
		return named(explicit, "flag", "--onnxruntime")
	}
	if path := os.Getenv(Environment); path != "" {
		return named(path, "environment", Environment)
	}
	var passed []string
	for _, place := range places() {
		for _, name := range place.names {
			lib, err := open(name)
			if err == nil {
				lib.Source, lib.Passed = place.source, passed
				return lib, nil
			}
			if place.source != "system" || errors.Is(err, errUnfit) {
				passed = append(passed, fmt.Sprintf("%s (%s): %v", name, place.source, err))
			}
		}
	}
	what := "ONNX Runtime " + oldest + " or newer is wanted and no library was found beside the binary, in the cache or by the system loader"
	if len(passed) > 0 {
		what = "ONNX Runtime " + oldest + " or newer is wanted and no library fits; found " + strings.Join(passed, "; ")
	}
	return Library{}, fault.New(fault.Internal, "", "%s", what).Do(remedy)
}

func named(path, source, by string) (Library, error) {
	refuse := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Internal, by+" "+path, format, args...).Do(remedyNamed, by)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return Library{}, refuse("no path").Because(err)
	}
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Library{}, refuse("no such file; wanted the shared library of ONNX Runtime")
	case err != nil:
		return Library{}, refuse("cannot be read").Because(err)
	case info.IsDir():
		if inside := inFolder(full); len(inside) > 0 {
			return Library{}, refuse("a folder; wanted the file of the library").Do("give %s", inside[0])
		}
		return Library{}, refuse("a folder; wanted the file of the library, libonnxruntime.so")
	}
	lib, err := open(full)
	if err != nil {
		return Library{}, refuse("%v", err)
	}
	lib.Path, lib.Source = full, source
	return lib, nil
}

// errUnfit marks a library that was opened and cannot be used.
var errUnfit = errors.New("does not fit")

type unfit struct{ error }

func (unfit) Is(target error) bool { return target == errUnfit }

// open checks one library: it must load, be ONNX Runtime, and be new enough. A fitting one stays open for the life of
// the process, since unloading ONNX Runtime under its own threads is not safe.
func open(name string) (Library, error) {
	s, err := openShared(name)
	if errors.Is(err, errNoEntry) {
		return Library{}, unfit{err}
	}
	if err != nil {
		return Library{}, fmt.Errorf("cannot be loaded as a shared library: %s", oneLine(err))
	}
	if !atLeast(s.version, oldest) {
		s.close()
		return Library{}, unfit{fmt.Errorf("ONNX Runtime %s is too old, wanted %s or newer", s.version, oldest)}
	}
	if !s.hasAPI(apiVersion) {
		s.close()
		return Library{}, unfit{fmt.Errorf("ONNX Runtime %s does not offer version %d of the C API", s.version, apiVersion)}
	}
	path := s.file
	if path == "" || filepath.IsAbs(name) {
		path = name
	}
	return Library{Path: path, Version: s.version}, nil
}

type place struct {
	source string
	names  []string
}

func places() []place {
	var list []place
	if binary, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(binary); err == nil {
			binary = real
		}
		list = append(list, place{"beside the binary", inFolder(filepath.Dir(binary))})
	}
	if file := cached(); file != "" {
		if _, err := os.Stat(file); err == nil {
			list = append(list, place{"cache", []string{file}})
		}
	}
	if goruntime.GOOS == "darwin" {
		return append(list, place{"system", []string{"libonnxruntime.dylib"}})
	}
	return append(list, place{"system", []string{"libonnxruntime.so.1", "libonnxruntime.so"}})
}

// cached is the file that make puts into the cache for this machine, empty where there is none.
func cached() string {
	machine, ok := map[string]string{"linux/amd64": "linux-x64", "linux/arm64": "linux-arm64"}[goruntime.GOOS+"/"+goruntime.GOARCH]
	base, err := os.UserCacheDir()
	if !ok || err != nil {
		return ""
	}
	return filepath.Join(base, "jempipe", "onnxruntime", Pinned, machine, "libonnxruntime.so.1")
}

// inFolder lists the libraries in a folder: the plain name, the name with the major version, then full versions, the
// newest first.
func inFolder(dir string) []string {
	if goruntime.GOOS == "darwin" {
		files, _ := filepath.Glob(filepath.Join(dir, "libonnxruntime*.dylib"))
		return files
	}
	var files []string
	for _, name := range []string{"libonnxruntime.so", "libonnxruntime.so.1"} {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			files = append(files, file)
		}
	}
	versions, _ := filepath.Glob(filepath.Join(dir, "libonnxruntime.so.1.*"))
	sort.Slice(versions, func(i, j int) bool {
		_, a, _ := strings.Cut(versions[i], ".so.")
		_, b, _ := strings.Cut(versions[j], ".so.")
		return !atLeast(b, a)
	})
	return append(files, versions...)
}

// atLeast compares dotted versions number by number; a part that is no number counts as far as its leading digits.
func atLeast(version, wanted string) bool {
	have, want := numbers(version), numbers(wanted)
	for i := range want {
		if i >= len(have) || have[i] != want[i] {
			return i < len(have) && have[i] > want[i]
		}
	}
	return true
}

func numbers(version string) []int {
	var list []int
	for _, part := range strings.Split(version, ".") {
		end := 0
		for end < len(part) && part[end] >= '0' && part[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		list = append(list, n)
	}
	return list
}

// origin is the place in ONNX Runtime's own source with which some of its messages begin.
var origin = regexp.MustCompile(`^/\S+:\d+ .*?\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : `)

// oneLine is an error's text without line breaks and without the prefixes that the Go binding and ONNX Runtime add.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"Error creating C session: ", "Error creating temporary session: ", "Error running network: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return origin.ReplaceAllString(text, "")
}
