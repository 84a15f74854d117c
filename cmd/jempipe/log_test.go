package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jempipe/jempipe/pipeline"
)

var training = pipeline.ProgressEvent{Name: "train", Kind: "train", Done: 3200, Total: 7500, Unit: "steps", PerSecond: 21.437, Left: 200*time.Second + 400*time.Millisecond,
	Figures: []pipeline.Figure{{Name: "gap", Value: -0.10213}, {Name: "accuracy", Value: 0.984375}, {Name: "valid_accuracy", Value: 0.9731}, {Name: "loss", Value: 0.4}}}

func TestDescribe(t *testing.T) {
	rows := pipeline.ProgressEvent{Name: "infer", Done: 10, Text: "mnist-test", PerSecond: 12345.6}
	for _, c := range []struct {
		event pipeline.ProgressEvent
		room  int
		want  string
	}{
		{training, 200, "train: 21.4 steps/s, ETA 3m20s, gap -0.102, accuracy 0.984, valid accuracy 0.973, loss 0.400"},
		{training, 57, "train: 21.4 steps/s, ETA 3m20s, gap -0.102"},
		{training, 58, "train: 21.4 steps/s, ETA 3m20s, gap -0.102, accuracy 0.984"},
		{training, 0, "train"},
		{rows, 80, "infer: 12346/s, mnist-test"},
		{pipeline.ProgressEvent{Name: "train", Unit: "steps", PerSecond: 0.0123}, 80, "train: 0.0123 steps/s"},
		{pipeline.ProgressEvent{Name: "train"}, 80, "train"},
	} {
		if got := describe(c.event, c.room); got != c.want {
			t.Errorf("room for %d characters:\n got  %s\n want %s", c.room, got, c.want)
		}
	}
}

var erase = regexp.MustCompile("\x1b\\[[0-9]*K")

// A line that is longer than the terminal is wide cannot be drawn over.
func TestBarFitsTheTerminal(t *testing.T) {
	for _, columns := range []int{60, 80, 120, 200} {
		var b bytes.Buffer
		o := &barObserver{w: &b, columns: func() int { return columns }}
		o.StageProgress(training)
		last := training
		last.Done = 7499
		o.StageProgress(last)
		shown := false
		for line := range strings.SplitSeq(b.String(), "\r") {
			line = erase.ReplaceAllString(line, "")
			if n := len([]rune(strings.TrimRight(line, " "))); n > columns {
				t.Errorf("%d characters in a terminal of %d: %q", n, columns, line)
			}
			shown = shown || strings.Contains(line, "train: 21.4 steps/s") && strings.Contains(line, "42%") &&
				(columns < 80 || strings.Contains(line, "accuracy 0.984")) && (columns < 100 || strings.Contains(line, "(3200/7500)"))
		}
		if !shown {
			t.Errorf("terminal of %d: no bar in %q", columns, b.String())
		}
	}
}
