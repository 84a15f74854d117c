package report

import (
	"html/template"
	"math"
	"strconv"
	"strings"
)

// dash is how a number that is not defined is shown.
const dash = "–"

// significant writes a number with about four significant digits, for a person.
func significant(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return dash
	case math.IsInf(v, 0):
		return strings.Replace(strings.Replace(strconv.FormatFloat(v, 'g', -1, 64), "+Inf", "∞", 1), "-Inf", "−∞", 1)
	case v == 0:
		return "0"
	case a >= 1e7 || a < 1e-4:
		return minus(strconv.FormatFloat(v, 'e', 2, 64))
	case a >= 1000:
		return minus(thousands(strconv.FormatFloat(v, 'f', 0, 64)))
	case a >= 100:
		return minus(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 10:
		return minus(strconv.FormatFloat(v, 'f', 2, 64))
	case a >= 0.01:
		return minus(strconv.FormatFloat(v, 'f', 3, 64))
	default:
		return minus(strconv.FormatFloat(v, 'g', 2, 64))
	}
}

// brief is significant without zeros at the end, for running text.
func brief(v float64) string {
	s := significant(v)
	if strings.Contains(s, ".") && !strings.Contains(s, "e") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// fixed writes a number with a set number of decimals, so that columns line up.
func fixed(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return significant(v)
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return minus(s)
}

// percent writes a share as per cent with one decimal.
func percent(v float64) string {
	if math.IsNaN(v) {
		return dash
	}
	return fixed(100*v, 1) + "\u202f%"
}

// count writes a whole number with thin spaces between thousands.
func count(n int64) string { return minus(thousands(strconv.FormatInt(n, 10))) }

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// minus puts the minus sign of typography for the hyphen.
func minus(s string) string { return strings.Replace(s, "-", "−", 1) }

// value is the number behind a nullable column; NaN for null.
func value(p *float64) float64 {
	if p == nil {
		return math.NaN()
	}
	return *p
}

// words is the text behind a nullable column; empty for null.
func words(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Cell is one number of a table as it is shown.
type Cell struct {
	Text string
	Note string // shown on hover: the reason for a dash, or more digits
	Sub  string // a second, smaller line, such as an interval
	Heat string // background strength 0..100 in per cent, as CSS; empty for none
	Mark string // best, same, or empty
}

// cell shows a nullable number, and why it is null.
func cell(p *float64, reason *string, format func(float64) string) Cell {
	if p == nil || math.IsNaN(*p) {
		note := words(reason)
		if note == "" {
			note = "not defined"
		}
		return Cell{Text: dash, Note: note}
	}
	note := strconv.FormatFloat(*p, 'g', 8, 64)
	if math.IsInf(*p, 0) {
		note = significant(*p)
	}
	return Cell{Text: format(*p), Note: note}
}

// interval is a pair of bounds on a second line; empty where there is none.
func interval(lo, hi *float64, format func(float64) string) string {
	if lo == nil || hi == nil {
		return ""
	}
	return format(*lo) + " to " + format(*hi)
}

func three(v float64) string { return fixed(v, 3) }
func four(v float64) string  { return fixed(v, 4) }

// functions are what the template calls.
var functions = template.FuncMap{
	"count":   count,
	"percent": percent,
	"css":     func(s string) template.CSS { return template.CSS(s) },
	"style":   func() template.CSS { return template.CSS(styleCSS) },
}
