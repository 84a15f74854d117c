package gradient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// einsum is an Einsum equation. In the terms, a point stands for an ellipsis.
type einsum struct {
	inputs []string
	output string
}

const (
	dots    = "."
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// parseEinsum reads an equation for a number of operands.
func parseEinsum(equation string, operands int) (einsum, error) {
	if strings.Contains(equation, dots) && strings.Count(equation, dots) != 3*strings.Count(equation, "...") {
		return einsum{}, fmt.Errorf("its equation %q has points that are no ellipsis", equation)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(equation, " ", ""), "...", dots)
	left, output, explicit := strings.Cut(text, "->")
	eq := einsum{inputs: strings.Split(left, ","), output: output}
	if len(eq.inputs) != operands {
		return einsum{}, fmt.Errorf("its equation %q has %d operands, the node %d", equation, len(eq.inputs), operands)
	}
	if !explicit {
		eq.output = implicitOutput(left)
	}
	for _, term := range append(slices.Clone(eq.inputs), eq.output) {
		if strings.Trim(term, letters+dots) != "" || strings.Count(term, dots) > 1 {
			return einsum{}, fmt.Errorf("its equation %q has the term %q, which is not letters and at most one ellipsis", equation, term)
		}
	}
	return eq, eq.checkOutput(equation, left)
}

// implicitOutput has the letters that occur once, in alphabetical order.
func implicitOutput(left string) string {
	var once []byte
	for i := range len(left) {
		if l := left[i : i+1]; strings.Contains(letters, l) && strings.Count(left, l) == 1 {
			once = append(once, left[i])
		}
	}
	slices.Sort(once)
	if strings.Contains(left, dots) {
		return dots + string(once)
	}
	return string(once)
}

func (eq einsum) checkOutput(equation, left string) error {
	if strings.Contains(left, dots) && !strings.Contains(eq.output, dots) {
		return errors.New("its equation has an ellipsis, which its output leaves out")
	}
	for i := range len(eq.output) {
		l := eq.output[i : i+1]
		if !strings.Contains(left, l) || strings.Count(eq.output, l) > 1 {
			return fmt.Errorf("the output of its equation %q has %q twice, or no operand has it", equation, l)
		}
	}
	return nil
}

// spelt replaces ellipses with letters that the equation does not use. count gives for each operand how many axes its
// ellipsis has; fewer than in others are the last ones. names are the letters that took the place of the ellipsis.
func (eq einsum) spelt(count []int) (out einsum, names string, err error) {
	used := strings.Join(eq.inputs, "")
	for i := range len(letters) {
		if l := letters[i : i+1]; !strings.Contains(used, l) {
			names += l
		}
	}
	most := 0
	if len(count) > 0 {
		most = slices.Max(count)
	}
	if most > len(names) {
		return einsum{}, "", errors.New("its operands have more axes than there are letters")
	}
	names = names[:most]
	for i, term := range eq.inputs {
		out.inputs = append(out.inputs, strings.Replace(term, dots, names[most-count[i]:], 1))
	}
	out.output = strings.Replace(eq.output, dots, names, 1)
	return out, names, nil
}

// distinct has each letter of a term once.
func distinct(term string) string {
	out := ""
	for i := range len(term) {
		if l := term[i : i+1]; !strings.Contains(out, l) {
			out += l
		}
	}
	return out
}

// pick has the letters of a term for which a condition holds.
func pick(term string, keep func(l string) bool) string {
	out := ""
	for i := range len(term) {
		if l := term[i : i+1]; keep(l) {
			out += l
		}
	}
	return out
}

// subset says that every letter of a is in b.
func subset(a, b string) bool { return strings.Trim(a, b) == "" && (a == "" || b != "") }
