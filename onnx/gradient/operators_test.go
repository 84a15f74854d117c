package gradient

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// operatorsPage is made from the registry and from what full runs of the tests count. Written with UPDATE_GOLDEN=1.
const operatorsPage = "../../docs/operators.md"

// measurement is what only runs of the tests can say for the page: the numbers of Jacobian cases and of node tests of
// the ONNX project by operator, and the line that sums the latter up. nil and "" were not measured.
type measurement struct {
	cases, passed map[string]int
	backend       string
}

var measured measurement

const pageIntro = `# Operators

jempipe differentiates ONNX graphs (package ` + "`onnx/gradient`" + `) and writes the gradient with standard operators, so that
ONNX Runtime runs it like any other model. This is the list of the operators that it knows. Any other one is an error, if
the gradient has to pass it; the error names the node.

The page is made from the registry in the code and from what its tests count. They fail where it is out of date;
` + "`UPDATE_GOLDEN=1 go test ./onnx/gradient`" + ` writes it anew.

- **opsets**: the versions of ONNX's operator set that have the operator, from 7 on, the first in which models are
  differentiated. Names that start with ai.onnx.ml count the versions of that set.
- **gradient**: *yes*; *constant*: the outputs do not change when the inputs change a little, or jump (shapes, comparisons,
  rounding), so that no gradient comes back through it and none is missing; *no*: a gradient that has to pass it is an error.
- **Jacobian cases**: combinations of shapes, attributes and operator sets for which every element of the gradient is compared
  with finite differences of the operator as ONNX Runtime computes it.
- **ONNX tests**: node tests of the ONNX project that have the operator somewhere in their graph and pass.

## Node tests of the ONNX project

The ONNX project tests every operator with small models and data. Wherever one has a float input and a float output, the gradient
of a random combination of its outputs is compared with finite differences along elements and random directions of its inputs:
in double precision where ONNX Runtime has the kernels (to 1e-5), in single precision else (to 1e-2), and then with the gradient
in the test's own types. Those that pass are listed in
[backend_allow.txt](../onnx/gradient/testdata/backend_allow.txt), those that cannot, with the reason, in
[backend_ignore.txt](../onnx/gradient/testdata/backend_ignore.txt).

`

const pageTable = `

## The operators

| operator | opsets | gradient | why not | Jacobian cases | ONNX tests |
| --- | --- | --- | --- | --- | --- |
`

// page writes the page of a registry.
func page(rules Registry, m measurement) string {
	var b strings.Builder
	b.WriteString(pageIntro)
	b.WriteString(m.backend)
	b.WriteString(pageTable)
	for _, op := range slices.Sorted(maps.Keys(rules)) {
		rule := rules[op]
		kind, why := "no", rule.Refuse
		switch {
		case rule.Gradient != nil:
			kind = "yes"
		case rule.Stops:
			kind = "constant"
		case why == "":
			why = "only what it does to shapes is known"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", op, opsets(op, rule), kind,
			strings.ReplaceAll(why, "|", "\\|"), number(m.cases[op]), number(m.passed[op]))
	}
	return b.String()
}

func opsets(op string, rule Rule) string {
	first := int64(minOpset)
	if strings.Contains(op, ".") { // another domain, with versions of its own
		first = 1
	}
	since := max(rule.Since, first)
	if rule.Until == 0 {
		return fmt.Sprintf("%d+", since)
	}
	return fmt.Sprintf("%d-%d", since, rule.Until)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// readPage gives what a page says was measured.
func readPage(text string) measurement {
	m := measurement{cases: map[string]int{}, passed: map[string]int{}}
	head, table, _ := strings.Cut(text, pageTable)
	m.backend = strings.TrimPrefix(head, pageIntro)
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(line, "\\|", ""), " | ")
		if len(cells) != 6 {
			continue
		}
		op := strings.Trim(cells[0], "|` ")
		m.cases[op], _ = strconv.Atoi(strings.TrimSpace(cells[4]))
		m.passed[op], _ = strconv.Atoi(strings.Trim(cells[5], "| \n"))
	}
	return m
}

// The page lists the registry as it is. Its numbers are checked when all tests have run, see TestMain.
func TestOperatorsPage(t *testing.T) {
	if os.Getenv("UPDATE_GOLDEN") != "" {
		t.Skip("the page is written after the tests")
	}
	text, err := os.ReadFile(operatorsPage)
	must(t, err)
	if err := samePage(string(text), page(Standard(), readPage(string(text)))); err != nil {
		t.Error(err)
	}
}

// checkPage compares the page's numbers with those of the run, or writes it with UPDATE_GOLDEN set. What the run has
// not measured stays as it is.
func checkPage(full bool) error {
	data, err := os.ReadFile(operatorsPage)
	update := os.Getenv("UPDATE_GOLDEN") != ""
	if err != nil && !update {
		return err
	}
	was := string(data)
	m := readPage(was)
	if full {
		m.cases = tested
	}
	if measured.passed != nil {
		m.passed, m.backend = measured.passed, measured.backend
	}
	now := page(Standard(), m)
	if update {
		return os.WriteFile(operatorsPage, []byte(now), 0o644)
	}
	if !full {
		return nil
	}
	return samePage(was, now)
}

func samePage(was, now string) error {
	if was == now {
		return nil
	}
	old, fresh := strings.Split(was, "\n"), strings.Split(now, "\n")
	for i := range max(len(old), len(fresh)) {
		a, b := at(old, i), at(fresh, i)
		if a != b {
			return fmt.Errorf("%s is out of date: run the tests of this package with UPDATE_GOLDEN=1; line %d is\n%s\nand should be\n%s", operatorsPage, i+1, a, b)
		}
	}
	return nil
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return cmp.Or(lines[i], "(empty)")
	}
	return "(nothing)"
}
