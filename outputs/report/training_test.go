package report

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jempipe/jempipe/outputs"
)

// step is a row of table training: an attempt, a step and what was found there.
func step(attempt int32, at int64, event string) outputs.Training {
	t := outputs.Training{Attempt: &attempt, Step: at, LR: math.Pow(0.5, float64(attempt))}
	if event != "" {
		t.Event = &event
	}
	return t
}

func TestHistory(t *testing.T) {
	type key struct {
		Attempt int32
		Step    int64
	}
	for _, c := range []struct {
		name string
		rows []outputs.Training
		want []key
		told []string
	}{
		{"nothing happened", []outputs.Training{step(0, 1, ""), step(0, 2, "")}, []key{{0, 1}, {0, 2}}, nil},
		{"one rollback", []outputs.Training{step(0, 1, ""), step(0, 2, ""), step(0, 3, "divergence: x; back to step 1"), step(1, 2, ""), step(1, 3, ""), step(1, 4, "")},
			[]key{{0, 1}, {1, 2}, {1, 3}, {1, 4}},
			[]string{"Training went wrong once and was taken back: at step 3 (divergence: x) it went back to step 1, with 50\u202f% of the learning rate."}},
		{"to the start", []outputs.Training{step(0, 1, "divergence: x; back to step 0"), step(1, 1, "")}, []key{{1, 1}},
			[]string{"Training went wrong once and was taken back: at step 1 (divergence: x) it went back to step 0, with 50\u202f% of the learning rate."}},
		{"further back the second time", []outputs.Training{step(0, 1, ""), step(0, 2, ""), step(0, 3, "a: x; back to step 2"), step(1, 3, "b: y; back to step 1"), step(2, 2, ""), step(2, 3, "")},
			[]key{{0, 1}, {2, 2}, {2, 3}},
			[]string{"Training went wrong twice and was taken back: at step 3 (a: x) it went back to step 2, with 50\u202f% of the learning rate; at step 3 (b: y) it went back to step 1."}},
		{"an end before the step at which it first went wrong", []outputs.Training{step(0, 1, ""), step(0, 2, ""), step(0, 3, "a: x; back to step 1"), step(1, 2, "b: y")},
			[]key{{0, 1}, {1, 2}},
			[]string{"Training ended at step 2: b: y.", "Training went wrong once and was taken back: at step 3 (a: x) it went back to step 1, with 50\u202f% of the learning rate."}},
	} {
		counting, troubles := history(c.rows)
		var got []key
		for _, r := range counting {
			got = append(got, key{r.Attempts(), r.Step})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: steps that count (-want +got)\n%s", c.name, diff)
		}
		var told []string
		for _, f := range troubleFindings(troubles) {
			told = append(told, f.Text)
		}
		if diff := cmp.Diff(c.told, told); diff != "" {
			t.Errorf("%s: findings (-want +got)\n%s", c.name, diff)
		}
	}
}

// TestHistoryOfAnyRun takes a run that goes back at random: at its end every step counts once, with the last attempt
// that took it.
func TestHistoryOfAnyRun(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var rows []outputs.Training
		last := map[int64]int32{}
		total := rapid.Int64Range(1, 20).Draw(r, "total")
		at, attempts := int64(0), rapid.Int32Range(0, 4).Draw(r, "rollbacks")
		for a := int32(0); a <= attempts; a++ {
			until := total
			if a < attempts {
				until = rapid.Int64Range(at+1, total).Draw(r, "until")
			}
			for at < until {
				at++
				rows, last[at] = append(rows, step(a, at, "")), a
			}
			if a < attempts {
				rows[len(rows)-1] = step(a, at, "found")
				at = rapid.Int64Range(0, at-1).Draw(r, "back")
			}
		}
		counting, troubles := history(rows)
		if int64(len(counting)) != total || len(troubles) != int(attempts) {
			r.Fatalf("%d steps of %d count, %d of %d rollbacks are told", len(counting), total, len(troubles), attempts)
		}
		for i, c := range counting {
			if c.Step != int64(i+1) || c.Attempts() != last[c.Step] {
				r.Fatalf("place %d has step %d of attempt %d, want attempt %d", i, c.Step, c.Attempt, last[c.Step])
			}
		}
	})
}

// What was taken back must not bend the lines, and must be marked in every chart over the steps.
func TestTakenBackStepsAreShadedAndNotDrawn(t *testing.T) {
	rows := []outputs.Training{step(0, 1, ""), step(0, 2, ""), step(0, 3, "divergence: x; back to step 1"), step(1, 2, ""), step(1, 3, ""), step(1, 4, "")}
	for i := range rows {
		rows[i].Loss, rows[i].Gap = new(1.0), new(0.0)
	}
	rows[2].Loss = new(77777.0)
	text := render(t, Report{Title: "t", Training: rows})
	if strings.Contains(text, "77") {
		t.Error("a loss that was taken back is drawn")
	}
	// steps 1 to 4 lie at 56 to 350: steps 1 to 3 are two thirds of that
	shaded := regexp.MustCompile(`<rect x="56" y="10" width="196" height="204" class="undone"><title>step 3: divergence: x; back to step 1`)
	if n := len(shaded.FindAllString(text, -1)); n != 3 {
		t.Errorf("%d shaded stretches, want one in each of the charts of loss, gap and learning rate", n)
	}
	for _, want := range []string{"<h3>What went wrong</h3>", "4 logged steps up to step 4"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestEnergyHistogram(t *testing.T) {
	if _, ok := energyHistogram([]outputs.Energy{{Set: outputs.EnergyTrain}, {Set: outputs.EnergyValid, Energy: new(math.Inf(1))}}); ok {
		t.Error("a histogram without a finite energy")
	}
	var rows []outputs.Energy
	for i := range 1000 {
		rows = append(rows, outputs.Energy{Set: outputs.EnergyTrain, Energy: new(-float64(i) / 100)}, outputs.Energy{Set: outputs.EnergyChains, Energy: new(3.0)})
	}
	fig, ok := energyHistogram(append(rows, outputs.Energy{Set: outputs.EnergyChains, Energy: new(1e9)}))
	want := []LegendEntry{{"s0", "training rows", "median −4.995"}, {"s2", "chains", "median 3"}}
	if diff := cmp.Diff(want, fig.Legend); !ok || diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !strings.Contains(fig.Caption, "beyond") || !strings.Contains(string(fig.SVG), "chains: 1\u202f001, median 3.000") {
		t.Errorf("the outlier is not told or not counted: %s\n%s", fig.Caption, fig.SVG)
	}
}

func TestBinsHoldEveryValue(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 50).Draw(r, "values")
		h := binned(values, -5, 3)
		if h.total() != int64(len(values)) || h.lo[0] != -5 || math.Abs(h.hi[energyBins-1]-3) > 1e-12 {
			r.Fatalf("%d of %d values counted between %v and %v", h.total(), len(values), h.lo[0], h.hi[energyBins-1])
		}
		for i := range energyBins {
			least, most := int64(0), int64(0) // what lies at an edge may fall to either side
			for _, v := range values {
				if (v > h.lo[i]+1e-9 || i == 0) && (v < h.hi[i]-1e-9 || i == energyBins-1) {
					least++
				}
				if (v > h.lo[i]-1e-9 || i == 0) && (v < h.hi[i]+1e-9 || i == energyBins-1) {
					most++
				}
			}
			if h.count[i] < least || h.count[i] > most {
				r.Fatalf("bin %d counts %d, %d to %d values lie in it", i, h.count[i], least, most)
			}
		}
	})
}

func TestSnapshot(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 20, 10))); err != nil {
		t.Fatal(err)
	}
	img, err := FromPNG(b.Bytes())
	if err != nil || img.Width != 20 || img.Height != 10 {
		t.Fatalf("%dx%d, %v", img.Width, img.Height, err)
	}
	rows := []outputs.Training{step(0, 1, "")}
	text := render(t, Report{Title: "t", Training: rows, Chains: &Snapshot{Step: 1500, Image: &img, Path: "train/samples/step-001500.png"}})
	if !strings.Contains(text, `<img src="`+string(img.URI())+`" width="20" height="10"`) || !strings.Contains(text, "Chains at step 1\u202f500") {
		t.Error("the picture is not on the page")
	}
	_, err = FromPNG(append(b.Bytes(), make([]byte, maxPNG)...))
	if err == nil || !strings.Contains(err.Error(), "KiB") {
		t.Errorf("a large picture: %v", err)
	}
	text = render(t, Report{Title: "t", Training: rows, Chains: &Snapshot{Step: 1500, Absent: err.Error(), Path: "train/samples/step-001500.png"}})
	if strings.Contains(text, "<img") || !strings.Contains(text, err.Error()) || !strings.Contains(text, "train/samples/step-001500.png") {
		t.Error("the page does not say where the picture lies and why it is not shown")
	}
	if _, err := FromPNG([]byte("GIF89a")); err == nil {
		t.Error("any file is accepted")
	}
}

func TestShortened(t *testing.T) {
	long := strings.Repeat("word, ", 30)
	if got := shortened(long); len([]rune(got)) > 102 || !strings.HasSuffix(got, "word …") {
		t.Errorf("%q", got)
	}
	if got := shortened("short"); got != "short" {
		t.Errorf("%q", got)
	}
}

func TestLearningRateHasShortNumbers(t *testing.T) {
	for lr, want := range map[float64]string{2e-3: "Learning rate × 10⁻³", 1e-4: "Learning rate × 10⁻⁴", 1.5: "Learning rate", 0: "Learning rate"} {
		charts := optimiserCharts([]outputs.Training{{LR: lr}, {LR: lr / 2}})
		if c := charts[1]; c.yLabel != want {
			t.Errorf("%v: %q, want %q", lr, c.yLabel, want)
		}
	}
}
