// Package nearest finds the known name that a mistyped one was probably meant to be.
package nearest

import "strings"

// To returns the member of known with the smallest edit distance to name, ignoring case; the first of several equally
// near ones. It returns "" when nothing is close: more than one edit in three letters (at least one edit is allowed).
func To(name string, known []string) string {
	if name == "" {
		return ""
	}
	best, least := "", max(1, len([]rune(name))/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours
// (Damerau 1964), each at cost 1.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, row := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		next := make([]int, len(y)+1)
		next[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}
