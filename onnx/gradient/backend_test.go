package gradient

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

const (
	allowFile  = "testdata/backend_allow.txt"
	ignoreFile = "testdata/backend_ignore.txt"
)

// outcome is what became of a test. With neither an error nor a cause it passed.
type outcome struct {
	cause   string   // why it has no gradient to compare
	blocked []string // operators that it has for that
	err     error
	elem    int32 // floating-point type of the comparison
}

const refusedModel = "a model that ONNX Runtime refuses"

func (b *backendTest) outcome(r *ort.Runtime, rules Registry) outcome {
	in, out := b.floats(b.model.Graph.Input, b.inputs), b.floats(b.model.Graph.Output, b.outputs)
	switch {
	case len(in) == 0:
		return outcome{cause: "no float input"}
	case len(out) == 0:
		return outcome{cause: "no float output"}
	case slices.Contains(b.inputs, nil):
		return outcome{cause: "an input that is no tensor"}
	}
	p, err := b.trace(rules)
	switch {
	case err != nil:
		return outcome{err: err}
	case len(p.blocked) > 0:
		if err := b.loads(r); err != nil {
			return outcome{cause: refusedModel, err: err}
		}
		return outcome{cause: "an operator without a gradient", blocked: p.blocked}
	case len(p.inputs) == 0:
		return outcome{cause: "outputs that are constant almost everywhere"}
	}
	elem, err := b.compare(r, rules, p)
	if errors.Is(err, errForward) {
		return outcome{cause: refusedModel, err: err}
	}
	return outcome{err: err, elem: elem}
}

// ignored is one line of the list of tests that are known not to pass.
type ignored struct{ pattern, reason string }

func readLines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return line == "" })
}

func readIgnored(t *testing.T) []ignored {
	t.Helper()
	var out []ignored
	for _, line := range readLines(t, ignoreFile) {
		pattern, reason, _ := strings.Cut(line, "\t")
		if strings.TrimSpace(reason) == "" {
			t.Errorf("%s: %s has no reason", ignoreFile, pattern)
		}
		out = append(out, ignored{pattern, reason})
	}
	return out
}

func (i ignored) matches(name string) bool {
	ok, _ := path.Match(i.pattern, name)
	return ok
}

// TestBackend compares gradients with central differences on the node tests of the ONNX project. Which pass is listed,
// as is which cannot and why: see UPDATE_GOLDEN in checkLists.
func TestBackend(t *testing.T) {
	tests := backendTests(t)
	r := runtimetest.Open(t)
	rules := Standard()
	var mu sync.Mutex
	outcomes := map[string]outcome{}
	t.Run("node", func(t *testing.T) {
		for _, b := range tests {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				o := b.outcome(r, rules)
				mu.Lock()
				defer mu.Unlock()
				outcomes[b.name] = o
			})
		}
	})
	checkLists(t, tests, outcomes)
	n := tally(outcomes)
	t.Logf("backend node tests: %d total, %s%s", len(tests), n, obstacles(outcomes))
	if len(outcomes) == len(tests) {
		measured.backend, measured.passed = n.paragraph(), occurrences(tests, outcomes)
	}
}

// occurrences counts the tests that passed, by the operators in them.
func occurrences(tests []*backendTest, outcomes map[string]outcome) map[string]int {
	out := map[string]int{}
	for _, b := range tests {
		if o := outcomes[b.name]; o.cause == "" && o.err == nil {
			for _, op := range b.operators() {
				out[op]++
			}
		}
	}
	return out
}

// A gradient that is a little too large is noticed, in both precisions.
func TestBackendNoticesErrors(t *testing.T) {
	tests := backendTests(t)
	r := runtimetest.Open(t)
	for _, c := range []struct {
		op, test string
		by       float64
	}{{"Sigmoid", "test_sigmoid", 1.0001}, {"Transpose", "test_transpose_default", 1.0001}, {"Conv", "test_basic_conv_with_padding", 1.03}} {
		for _, by := range []float64{1, c.by} {
			rules := Standard()
			rule := rules[c.op]
			right := rule.Gradient
			rule.Gradient = func(ctx *Context) error {
				err := right(ctx)
				if parts := ctx.walk.parts[ctx.In(0)]; by != 1 && len(parts) > 0 {
					parts[len(parts)-1].name = ctx.Scale(parts[len(parts)-1].name, by)
				}
				return err
			}
			rules[c.op] = rule
			at := slices.IndexFunc(tests, func(b *backendTest) bool { return b.name == c.test })
			if o := tests[at].outcome(r, rules); o.cause != "" || (o.err != nil) != (by != 1) {
				t.Errorf("%s times %v: %+v", c.op, by, o)
			}
		}
	}
}

// checkLists holds what happened against the lists. With UPDATE_GOLDEN set, the list of those that pass is written anew
// first. A test that fails has to be ignored by hand, with a reason.
func checkLists(t *testing.T, tests []*backendTest, outcomes map[string]outcome) {
	t.Helper()
	ignore := readIgnored(t)
	partial := len(outcomes) < len(tests) // with -run
	if os.Getenv("UPDATE_GOLDEN") != "" && !partial {
		var pass strings.Builder
		for _, b := range tests {
			if o := outcomes[b.name]; o.cause == "" && o.err == nil {
				fmt.Fprintln(&pass, b.name)
			}
		}
		must(t, os.WriteFile(allowFile, []byte(pass.String()), 0o644))
	}
	allowed := map[string]bool{}
	for _, name := range readLines(t, allowFile) {
		allowed[name] = true
	}
	used := map[string]bool{}
	for _, b := range tests {
		o, ran := outcomes[b.name]
		at := slices.IndexFunc(ignore, func(i ignored) bool { return i.matches(b.name) })
		if ran {
			if problem := judge(o, allowed[b.name], at >= 0); problem != "" {
				t.Errorf("%s %s", b.name, problem)
			}
		}
		if at >= 0 && o.cause == "" {
			used[ignore[at].pattern] = true
		}
		delete(allowed, b.name)
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		t.Errorf("%s: there is no test %s", allowFile, name)
	}
	for _, i := range ignore {
		if !used[i.pattern] && !partial {
			t.Errorf("%s: no test that has a gradient is called %s", ignoreFile, i.pattern)
		}
	}
}

// judge says what is wrong about a test, by what became of it and what the lists say.
func judge(o outcome, allowed, ignored bool) string {
	switch {
	case allowed && ignored:
		return "is in both lists"
	case allowed && o.cause != "":
		return fmt.Sprintf("is listed in %s, but has %s: %s %v", allowFile, o.cause, strings.Join(o.blocked, ", "), o.err)
	case o.cause != "":
		return ""
	case ignored && o.err == nil:
		return fmt.Sprintf("passes: take it out of %s", ignoreFile)
	case o.err != nil && !ignored:
		return fmt.Sprintf("failed: %v", o.err)
	case o.err == nil && !allowed:
		return fmt.Sprintf("passes, but is not listed in %s: run with UPDATE_GOLDEN=1", allowFile)
	}
	return ""
}

// counts are numbers of tests.
type counts struct {
	passed, double, failed int
	causes                 map[string]int
}

func tally(outcomes map[string]outcome) counts {
	n := counts{causes: map[string]int{}}
	for _, o := range outcomes {
		switch {
		case o.cause != "":
			n.causes[o.cause]++
		case o.err != nil:
			n.failed++
		default:
			n.passed++
			if o.elem == ir.Float64 {
				n.double++
			}
		}
	}
	return n
}

func (n counts) ineligible() (total int, why string) {
	var list []string
	for _, cause := range byCount(n.causes) {
		total += n.causes[cause]
		list = append(list, fmt.Sprintf("%d have %s", n.causes[cause], cause))
	}
	return total, strings.Join(list, ", ")
}

func (n counts) String() string {
	total, why := n.ineligible()
	return fmt.Sprintf("%d passed (%d in double precision), %d ignored with reason, %d not eligible: %s", n.passed, n.double, n.failed, total, why)
}

// paragraph says the same on the page of operators.
func (n counts) paragraph() string {
	total, why := n.ineligible()
	return fmt.Sprintf("Of the %d tests, %d pass, %d of them in double precision, and %d are ignored with a reason.\nThe other %d have no gradient to compare:\n%s.",
		n.passed+n.failed+total, n.passed, n.double, n.failed, total, strings.ReplaceAll(why, ", ", ",\n"))
}

// obstacles counts the operators without a gradient and those that ONNX Runtime has not.
func obstacles(outcomes map[string]outcome) string {
	alone, all, refused := map[string]int{}, map[string]int{}, map[string]int{}
	for _, o := range outcomes {
		for _, op := range o.blocked {
			all[op]++
			if len(o.blocked) == 1 {
				alone[op]++
			}
		}
		if o.cause != "" && o.err != nil {
			refused[refusal(o.err)]++
		}
	}
	var text strings.Builder
	for _, op := range byCount(all) {
		fmt.Fprintf(&text, "\n\toperator %s: %d tests, %d of them for no other reason", op, all[op], alone[op])
	}
	for _, reason := range byCount(refused) {
		fmt.Fprintf(&text, "\n\t%d tests: %s", refused[reason], reason)
	}
	return text.String()
}

func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
}

// missing finds the operator in ONNX Runtime's words for not having it, in the version or types of a test.
var missing = regexp.MustCompile(`No Op registered for (\w+)|(?:implementation|kernel) for (\w+)\(|error: ([\w.:]+)\(`)

// refusal is why ONNX Runtime does not take a model: the operator that it has not, else its message.
func refusal(err error) string {
	if m := missing.FindStringSubmatch(err.Error()); m != nil {
		return "ONNX Runtime has no " + cmp.Or(m[1], m[2], strings.ReplaceAll(m[3], ":", ".")) + " of that version and type"
	}
	return strings.TrimPrefix(err.Error(), errForward.Error()+": ")
}
