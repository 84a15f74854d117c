package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jempipe/jempipe/outputs"
)

// trouble is what went wrong in a training run, and where it went on.
type trouble struct {
	step    int64 // at which it was found
	attempt int32 // that ended there
	found   string
	back    int64      // the last step that was kept; -1: the run did not go on
	lr      [2]float64 // learning rate of the step after it, before and after; NaN where not known
}

// history parts the steps that count from those that were taken back. A step was taken back when a later attempt began
// at it or before it.
func history(rows []outputs.Training) (counting []outputs.Training, troubles []trouble) {
	first := make(map[int32]outputs.Training) // of each attempt
	var last int32
	for _, t := range rows {
		last = max(last, t.Attempts())
		if f, ok := first[t.Attempts()]; !ok || t.Step < f.Step {
			first[t.Attempts()] = t
		}
	}
	until := make(map[int32]int64) // steps of an attempt from here on were taken back
	end := int64(math.MaxInt64)
	for a := last; a >= 0; a-- {
		until[a] = end
		if f, ok := first[a]; ok {
			end = min(end, f.Step)
		}
	}
	for _, t := range rows {
		if t.Step < until[t.Attempts()] {
			counting = append(counting, t)
		}
		if t.Event != nil {
			troubles = append(troubles, troubleAt(t, rows, first))
		}
	}
	return counting, troubles
}

// troubleAt describes the trouble of a row with an event.
func troubleAt(t outputs.Training, rows []outputs.Training, first map[int32]outputs.Training) trouble {
	found, _, _ := strings.Cut(*t.Event, "; back to step ")
	out := trouble{step: t.Step, attempt: t.Attempts(), found: found, back: -1, lr: [2]float64{math.NaN(), math.NaN()}}
	next, ok := first[t.Attempts()+1]
	if !ok {
		return out
	}
	out.back, out.lr[1] = 0, next.LR
	for _, r := range rows {
		if r.Attempts() <= t.Attempts() && r.Step < next.Step {
			out.back = max(out.back, r.Step)
		}
		if r.Attempts() == t.Attempts() && r.Step == next.Step {
			out.lr[0] = r.LR
		}
	}
	return out
}

// answer says what was done.
func (t trouble) answer() string {
	if t.back < 0 {
		return "the run ended"
	}
	text := "back to step " + count(t.back)
	if t.lr[0] > 0 && t.lr[1] > 0 && t.lr[0] != t.lr[1] {
		text += fmt.Sprintf(", with %s\u202f%% of the learning rate", brief(100*t.lr[1]/t.lr[0]))
	}
	return text
}

// troubleTable lists what went wrong; nil where nothing did.
func troubleTable(list []trouble) *Table {
	if len(list) == 0 {
		return nil
	}
	t := &Table{Source: "training", Head: []Column{{Name: "Step"}, {Name: "Attempt", Note: "rollbacks before"}, {Name: "Found", Text: true}, {Name: "Answer", Text: true}},
		Note: "Each attempt has random streams of its own. What was taken back is shaded in the charts; their lines follow the steps that count."}
	for _, e := range list {
		t.Rows = append(t.Rows, []Cell{{Text: count(e.step)}, {Text: count(int64(e.attempt))}, {Text: e.found}, {Text: e.answer()}})
	}
	return t
}

// troubleFindings tells how often training went wrong, why, and where it went on.
func troubleFindings(list []trouble) []Finding {
	const told = 3
	var out []Finding
	var rollbacks []string
	for _, e := range list {
		if e.back < 0 {
			out = append(out, Finding{fmt.Sprintf("Training ended at step %s: %s.", count(e.step), e.found), "training"})
			continue
		}
		rollbacks = append(rollbacks, fmt.Sprintf("at step %s (%s) it went %s", count(e.step), shortened(e.found), e.answer()))
	}
	n := len(rollbacks)
	if n == 0 {
		return out
	}
	times := plural(n, "time")
	if n <= 2 {
		times = []string{"once", "twice"}[n-1]
	}
	text := fmt.Sprintf("Training went wrong %s and was taken back: %s", times, strings.Join(rollbacks[:min(n, told)], "; "))
	if n > told {
		text += fmt.Sprintf("; and %s more", count(int64(n-told)))
	}
	return append(out, Finding{text + ".", "training"})
}

// shortened is a text of at most about a hundred characters, cut between words.
func shortened(text string) string {
	const most = 100
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	head := string([]rune(text)[:most])
	if at := strings.LastIndexByte(head, ' '); at > 0 {
		head = head[:at]
	}
	return strings.TrimRight(head, " ,;:(") + " …"
}

// spans are the stretches that were taken back, for a chart over the steps.
func spans(list []trouble) []span {
	var out []span
	for _, e := range list {
		s := span{from: float64(e.step), to: float64(e.step), hint: fmt.Sprintf("step %s: %s; %s", count(e.step), e.found, e.answer())}
		if e.back >= 0 {
			s.from = float64(e.back)
		}
		out = append(out, s)
	}
	return out
}
