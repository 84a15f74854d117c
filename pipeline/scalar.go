package pipeline

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// setScalar parses the scalar n into v, which is a string, bool, integer or float. It returns what is wrong, as a kind and
// a message, or an empty message. Numbers are parsed from the text as written, never through another number type.
func setScalar(n *node, v reflect.Value) (FindingKind, string) {
	t := v.Type()
	mismatch := func(hint string) (FindingKind, string) {
		return WrongType, fmt.Sprintf("%s found, %s wanted%s", n.found(), wanted(t), hint)
	}
	if t.Kind() == reflect.String {
		v.SetString(n.text)
		return "", ""
	}
	if n.quoted {
		return mismatch(": remove the quotes")
	}
	switch {
	case t.Kind() == reflect.Bool:
		switch strings.ToLower(n.text) {
		case "true", "false":
			v.SetBool(strings.EqualFold(n.text, "true"))
			return "", ""
		}
		return mismatch("")
	case v.CanFloat():
		return setFloat(n, v, mismatch)
	}
	return setInteger(n, v, mismatch)
}

func setFloat(n *node, v reflect.Value, mismatch func(string) (FindingKind, string)) (FindingKind, string) {
	if ambiguous(n.text) {
		return mismatch(": write it without the leading zero")
	}
	x, err := strconv.ParseFloat(strings.ReplaceAll(n.text, "_", ""), v.Type().Bits())
	if math.IsInf(x, 0) && err != nil {
		return OutOfRange, fmt.Sprintf("%s is too large for a number here", clip(n.text))
	}
	if err != nil || strings.HasPrefix(n.text, "_") {
		switch strings.TrimLeft(strings.ToLower(n.text), "+-") {
		case ".inf", ".nan":
			return OutOfRange, fmt.Sprintf("%s found, a finite number wanted", n.text)
		}
		return mismatch("")
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return OutOfRange, fmt.Sprintf("%s found, a finite number wanted", n.text)
	}
	v.SetFloat(x)
	return "", ""
}

func setInteger(n *node, v reflect.Value, mismatch func(string) (FindingKind, string)) (FindingKind, string) {
	text := strings.ReplaceAll(n.text, "_", "")
	digits := strings.TrimLeft(text, "+-")
	if digits == "" || digits[0] < '0' || digits[0] > '9' || strings.HasPrefix(n.text, "_") {
		return mismatch("")
	}
	if ambiguous(n.text) {
		return mismatch(": write it without the leading zero, or with 0o if it is octal")
	}
	if e := strings.IndexAny(text, "eE"); e >= 0 && !strings.HasPrefix(digits, "0x") {
		// 1e6 is an integer to everybody but the parsers of integers.
		x, err := strconv.ParseFloat(text, 64)
		if err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			text = strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	var err error
	if v.CanUint() {
		var u uint64
		if strings.HasPrefix(text, "-") {
			return OutOfRange, fmt.Sprintf("%s is too small, at least 0 is wanted", n.text)
		}
		if u, err = strconv.ParseUint(strings.TrimPrefix(text, "+"), 0, v.Type().Bits()); err == nil {
			v.SetUint(u)
			return "", ""
		}
	} else {
		var i int64
		if i, err = strconv.ParseInt(text, 0, v.Type().Bits()); err == nil {
			v.SetInt(i)
			return "", ""
		}
	}
	if ne, ok := err.(*strconv.NumError); ok && ne.Err == strconv.ErrRange {
		return OutOfRange, fmt.Sprintf("%s does not fit into %d bits", clip(n.text), v.Type().Bits())
	}
	return mismatch("")
}

// ambiguous is a decimal with a leading zero, which YAML 1.1 reads as octal and YAML 1.2 as decimal.
func ambiguous(text string) bool {
	text = strings.TrimLeft(text, "+-")
	return len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9'
}

// check tells how a number breaks its bounds; empty where it does not.
func (b bounds) check(v reflect.Value, written string) string {
	var x float64
	switch {
	case v.CanInt():
		x = float64(v.Int())
	case v.CanUint():
		x = float64(v.Uint())
	case v.CanFloat():
		x = v.Float()
	default:
		return ""
	}
	switch {
	case b.min != nil && x < *b.min:
		return fmt.Sprintf("%s is too small, at least %s is wanted", written, number(*b.min))
	case b.above != nil && x <= *b.above:
		return fmt.Sprintf("%s is too small, more than %s is wanted", written, number(*b.above))
	case b.max != nil && x > *b.max:
		return fmt.Sprintf("%s is too large, at most %s is wanted", written, number(*b.max))
	case b.below != nil && x >= *b.below:
		return fmt.Sprintf("%s is too large, less than %s is wanted", written, number(*b.below))
	}
	return ""
}

func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	// Go writes two digits of the exponent at least.
	return strings.Replace(strconv.FormatFloat(x, 'g', -1, 64), "e-0", "e-", 1)
}
