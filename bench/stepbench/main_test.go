package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func TestWithoutPyTorch(t *testing.T) {
	if _, err := ort.Find(""); err != nil {
		t.Skip(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-nets", "convnet-silu", "-engines", "gorgonia", "-rounds", "1", "-budget", "1ms"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		`medians of 1 turns: ONNX Runtime`, `PyTorch is not installed, the comparison with it is left out: make bench-peer`,
		`convnet-silu +chain +any +\d+\.\d\n`, `convnet-silu +step +gorgonia +\d+\.\d\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// The first turn warms up and does not count; a turn has as many runs as fit into its time; a failure ends the turns.
func TestTurns(t *testing.T) {
	var asked []int
	times := []time.Duration{100, 4, 6, 5}
	c := &contender{run: func(n int) ([]time.Duration, error) {
		asked = append(asked, n)
		if len(times) == 0 {
			return nil, errors.New("broken")
		}
		d := times[0]
		times = times[1:]
		return []time.Duration{d * time.Millisecond}, nil
	}}
	for range 6 {
		c.turn(210 * time.Millisecond)
	}
	if want := []int{1, 2, 4, 20, 20}; !slices.Equal(asked, want) {
		t.Errorf("runs asked for %v, want %v", asked, want)
	}
	if c.err == nil {
		t.Error("the failure was lost")
	}
	if got := (&bench{}).time(c); got != 5 {
		t.Errorf("median %v ms, want 5", got)
	}
	if got := (&bench{best: true}).time(c); got != 4 {
		t.Errorf("shortest time %v ms, want 4", got)
	}
}
