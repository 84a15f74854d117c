package train

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A letter a checkpoint in the order of their steps, which are 10, 20, ...: h healthy, s sick, r healthy and gone back to
// before, b healthy but in between.
func TestWhichCheckpointsAreKeptAndGoneBackTo(t *testing.T) {
	for _, c := range []struct {
		saved   string
		kept    []int
		trouble int
		back    int
	}{
		{"hhhhh", []int{30, 40, 50}, 55, 50},
		{"hhhhh", []int{30, 40, 50}, 50, 40},
		{"hhsss", []int{10, 20, 30, 40, 50}, 55, 20},
		{"hhssss", []int{10, 20, 40, 50, 60}, 65, 20},
		{"hhssss", []int{10, 20, 40, 50, 60}, 15, 10},
		{"hrssss", []int{10, 20, 40, 50, 60}, 65, 10},
		{"rrssss", []int{10, 20, 40, 50, 60}, 65, 10},
		{"sssss", []int{30, 40, 50}, 55, 30},
		{"hhhb", []int{10, 20, 30, 40}, 45, 30},
		{"hbhbh", []int{10, 30, 50}, 55, 50},
	} {
		store := checkpoints{dir: t.TempDir(), keep: 3}
		for i, kind := range c.saved {
			err := store.save(saved{facts: facts{Step: 10 * (i + 1), Healthy: kind != 's', Returned: kind == 'r', Between: kind == 'b'}})
			if err != nil {
				t.Fatal(err)
			}
		}
		all, err := store.list()
		if err != nil {
			t.Fatal(err)
		}
		var kept []int
		for _, l := range all {
			kept = append(kept, l.Step)
		}
		if !slices.Equal(kept, c.kept) {
			t.Errorf("%s: kept %v, want %v", c.saved, kept, c.kept)
		}
		back, err := store.before(c.trouble)
		if err != nil || back.Step != c.back {
			t.Errorf("%s, trouble at %d: back to %v (%v), want %d", c.saved, c.trouble, back, err, c.back)
		}
		newest, err := store.newest(func(err error) { t.Error(err) })
		if err != nil || newest.Step != kept[len(kept)-1] {
			t.Errorf("%s: continues from %v, %v", c.saved, newest, err)
		}
	}
	if back, err := (checkpoints{dir: t.TempDir()}).before(5); back != nil || err != nil {
		t.Errorf("no checkpoint: %v, %v", back, err)
	}
}

// A rollback replaces the checkpoints behind its target, in whatever order files and names come.
func TestNewAttemptDropsWhatLiesBehindIt(t *testing.T) {
	store := checkpoints{dir: t.TempDir(), keep: 3}
	var names []string
	for _, f := range []facts{{Step: 10}, {Step: 20}, {Step: 30}, {Step: 20, Attempt: 1}} {
		f.Healthy = true
		if err := store.save(saved{facts: f}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := store.list()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		names = append(names, fmt.Sprintf("%d/%d", l.Step, l.Attempt))
	}
	if got := strings.Join(names, " "); got != "10/0 20/1" {
		t.Errorf("left: %s", got)
	}
}

func TestHealthy(t *testing.T) {
	g := Default().Guard
	w := watch{}
	if !w.healthy(g) {
		t.Error("a run without steps is not healthy")
	}
	for i := range 300 {
		w.gaps = append(w.gaps, float64(i)/100)
	}
	if w.healthy(g) {
		t.Error("a mean gap of 2 is healthy")
	}
	w.gaps = append(w.gaps, make([]float64, 150)...)
	if !w.healthy(g) {
		t.Error("a mean gap of 0.7 is not healthy")
	}
}
