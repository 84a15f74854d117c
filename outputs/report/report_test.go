package report

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"flag"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jempipe/jempipe/outputs"
)

var (
	update = flag.Bool("update", false, "rewrite golden files")
	keepAt = flag.String("keep", "", "write the example report to this file, to look at it")
)

func render(t interface {
	Helper()
	Fatal(...any)
}, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExampleHasItsStructure(t *testing.T) {
	text := render(t, example(t))
	if *keepAt != "" {
		if err := os.WriteFile(*keepAt, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join("testdata", "structure.txt")
	got := outline(text)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test -update rewrites it (-want +got)\n%s", diff)
	}
}

var (
	marks = regexp.MustCompile(`<h([1-4])[^>]*>(.*?)</h[1-4]>|<(figure|table|details|img)\b`)
	voids = map[string]bool{"meta": true, "input": true, "img": true}
)

// outline is the headings of a page, and below each how many things of which kind there are.
func outline(text string) string {
	var b strings.Builder
	counts := make(map[string]int)
	flush := func() {
		for _, kind := range []string{"figure", "table", "details", "img"} {
			if counts[kind] > 0 {
				fmt.Fprintf(&b, "      %d %s\n", counts[kind], kind)
			}
		}
		clear(counts)
	}
	for _, m := range marks.FindAllStringSubmatch(text, -1) {
		if m[3] != "" {
			counts[m[3]]++
			continue
		}
		flush()
		fmt.Fprintf(&b, "h%s %s\n", m[1], m[2])
	}
	flush()
	return b.String()
}

// wellFormed checks that elements are closed in order and ids are unique.
func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict = false
	d.Entity = xml.HTMLEntity
	var open []string
	ids := make(map[string]bool)
	for {
		token, err := d.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch e := token.(type) {
		case xml.StartElement:
			if !voids[e.Name.Local] {
				open = append(open, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "id" {
					if ids[a.Value] {
						return fmt.Errorf("id %q is there twice", a.Value)
					}
					ids[a.Value] = true
				}
			}
		case xml.EndElement:
			if voids[e.Name.Local] {
				continue
			}
			if len(open) == 0 || open[len(open)-1] != e.Name.Local {
				return fmt.Errorf("</%s> closes %v", e.Name.Local, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("not closed: %v", open)
	}
	return nil
}

func TestPageIsWellFormedAndSelfContained(t *testing.T) {
	for name, r := range map[string]Report{"example": example(t), "empty": {Title: "empty"}} {
		text := render(t, r)
		if err := wellFormed(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range []string{"<script", "http://", "https://", "<link", "@import", "url(", "NaN", "ZgotmplZ", "%!"} {
			if strings.Contains(text, word) {
				at := strings.Index(text, word)
				t.Errorf("%s: the page contains %q: …%s…", name, word, text[max(0, at-60):min(len(text), at+60)])
			}
		}
	}
}

func TestSameReportGivesTheSameBytes(t *testing.T) {
	if render(t, example(t)) != render(t, example(t)) {
		t.Error("two renderings differ")
	}
}

func TestPageIsSmall(t *testing.T) {
	r := example(t)
	for range 10000 {
		r.Training = append(r.Training, r.Training...)
		if len(r.Training) > 100_000 {
			break
		}
	}
	for i := range 500 {
		r.Samples = append(r.Samples, outputs.Sample{Chain: int64(1000 + i), X: r.Samples[0].X})
	}
	for i := range r.Gallery {
		for range 7 {
			r.Gallery[i].Items = append(r.Gallery[i].Items, r.Gallery[i].Items...)
		}
	}
	text := render(t, r)
	if len(text) > 4<<20 {
		t.Errorf("the page has %d bytes, want at most 4 MiB", len(text))
	}
	if n := strings.Count(text, "<img "); n > MaxPictures {
		t.Errorf("%d pictures, want at most %d", n, MaxPictures)
	}
}

func TestMissingSectionsAreNamed(t *testing.T) {
	text := render(t, Report{Title: "bare"})
	for _, stage := range []string{"train", "calibrate", "ood", "sgld", "infer"} {
		if !strings.Contains(text, "stage <code>"+stage+"</code> gives it") {
			t.Errorf("stage %s is not named", stage)
		}
	}
}

// TestAnyReportIsWellFormed draws reports with odd names, missing values and infinities.
func TestAnyReportIsWellFormed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "", `"><img src=x>`, "é</svg>", "&amp;", "a b"})
		number := rapid.SampledFrom([]*float64{nil, new(0.0), new(1.0), new(0.3), new(-5e9), new(math.Inf(1)), new(math.Inf(-1)), new(1e-300)})
		rep := Report{Title: name.Draw(r, "title"), GapAlarm: rapid.SampledFrom([]float64{0, 3}).Draw(r, "alarm"), SampleShape: []int{2, 2}, SampleRange: [2]float64{0, 1}}
		rep.Chains = rapid.SampledFrom([]*Snapshot{nil, {Step: 1, Path: name.Draw(r, "path"), Absent: name.Draw(r, "absent")}}).Draw(r, "chains")
		for range rapid.IntRange(0, 3).Draw(r, "rows") {
			rep.Energies = append(rep.Energies, outputs.Energy{Set: rapid.SampledFrom([]string{"train", "valid", "chains", "?"}).Draw(r, "energies"), Energy: number.Draw(r, "energy")})
			event := rapid.SampledFrom([]*string{nil, nil, new("divergence: a </td> & b; back to step 3"), new("")}).Draw(r, "event")
			rep.Training = append(rep.Training, outputs.Training{Attempt: rapid.Ptr(rapid.Int32Range(0, 3), true).Draw(r, "attempt"), Event: event, LR: value(number.Draw(r, "lr")), GapSign: number.Draw(r, "sign"), Step: rapid.Int64Range(0, 3).Draw(r, "step"), Loss: number.Draw(r, "loss"), Gap: number.Draw(r, "gap"), FData: number.Draw(r, "f")})
			rep.CalibrationBins = append(rep.CalibrationBins, outputs.CalibrationBin{Dataset: name.Draw(r, "set"), Scheme: "equal_width", Map: "uncalibrated", Hi: 1, Count: 1, Accuracy: number.Draw(r, "acc"), MeanConf: number.Draw(r, "conf")})
			rep.CalibrationMetrics = append(rep.CalibrationMetrics, outputs.CalibrationMetric{Dataset: "d", Map: name.Draw(r, "map"), Metric: "ece", Value: number.Draw(r, "ece")})
			rep.OODMetrics = append(rep.OODMetrics, outputs.OODMetric{IDDataset: "i", OODDataset: name.Draw(r, "ood"), Detector: name.Draw(r, "detector"), Metric: "auroc", Value: number.Draw(r, "auroc"), CIHigh: number.Draw(r, "hi")})
			rep.Thresholds = append(rep.Thresholds, outputs.Threshold{Detector: "energy", IDDataset: "i", Threshold: number.Draw(r, "t")})
			rep.Histograms = append(rep.Histograms,
				outputs.Histogram{IDDataset: "i", Dataset: "i", Detector: "energy", Lo: 0, Hi: 1, Count: rapid.Int64Range(0, 2).Draw(r, "n")},
				outputs.Histogram{IDDataset: "i", Dataset: name.Draw(r, "hist"), Detector: "energy", Lo: 0, Hi: 1, Count: 1})
			rep.ROC = append(rep.ROC, outputs.ROC{IDDataset: name.Draw(r, "id"), OODDataset: "o", TPR: 1, FPR: 1})
			rep.RiskCoverage = append(rep.RiskCoverage, outputs.RiskCoverage{Dataset: "d", RankedBy: name.Draw(r, "by"), Coverage: 1, Risk: number.Draw(r, "risk")})
			rep.PerClass = append(rep.PerClass, outputs.PerClass{Dataset: "d", ClassName: name.Draw(r, "class"), Accuracy: number.Draw(r, "recall")})
			rep.Confusion = append(rep.Confusion, outputs.Confusion{Dataset: "d", Label: rapid.Int32Range(0, 30).Draw(r, "label"), LabelName: name.Draw(r, "labelname"), Count: 1})
			rep.Samples = append(rep.Samples, outputs.Sample{Chain: rapid.Int64Range(0, 2).Draw(r, "chain"), X: make([]float32, rapid.IntRange(0, 5).Draw(r, "size")), Energy: number.Draw(r, "e")})
			rep.Datasets = append(rep.Datasets, Dataset{Name: name.Draw(r, "dataset"), NotOK: []StatusCount{{name.Draw(r, "status"), name.Draw(r, "reason"), 1}}})
		}
		text := render(r, rep)
		if err := wellFormed(text); err != nil {
			r.Fatal(err)
		}
		for _, word := range []string{"NaN", "Inf"} {
			if i := strings.Index(text, word); i >= 0 {
				r.Fatalf("%s: %s", word, text[max(0, i-200):i+20])
			}
		}
		if strings.Contains(text, "<img src=x>") {
			r.Fatal("a name is not escaped")
		}
	})
}

func TestThumb(t *testing.T) {
	grey := func(v ...float32) []float32 { return v }
	for _, c := range []struct {
		name  string
		x     []float32
		shape []int
		want  [][3]uint8 // nil: an error
	}{
		{"HW", grey(0, 8, 16, 99), []int{2, 2}, [][3]uint8{{0, 0, 0}, {128, 128, 128}, {255, 255, 255}, {255, 255, 255}}},
		{"1HW", grey(-5, 16), []int{1, 1, 2}, [][3]uint8{{0, 0, 0}, {255, 255, 255}}},
		{"HW1", grey(16, 0), []int{2, 1, 1}, [][3]uint8{{255, 255, 255}, {0, 0, 0}}},
		{"3HW", grey(16, 0, 0, 16, 0, 16), []int{3, 1, 2}, [][3]uint8{{255, 0, 0}, {0, 255, 255}}},
		{"HW3", grey(16, 0, 0, 0, 16, 16), []int{2, 1, 3}, [][3]uint8{{255, 0, 0}, {0, 255, 255}}},
		{"NaN", grey(float32(math.NaN())), []int{1, 1}, [][3]uint8{{0, 0, 0}}},
		{"too few", grey(1), []int{2, 2}, nil},
		{"too many", grey(1, 2, 3), []int{1, 2}, nil},
		{"vector", grey(1, 2), []int{2}, nil},
		{"channels", grey(1, 2), []int{2, 1, 2}, nil},
		{"empty", grey(), []int{0, 4}, nil},
	} {
		img, err := Thumb(c.x, c.shape, 0, 16)
		if c.want == nil {
			if err == nil {
				t.Errorf("%s: no error", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, pixels(t, img)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
	if _, err := Thumb(grey(1), []int{1, 1}, 3, 3); err == nil {
		t.Error("an empty range is accepted")
	}
	img, err := Thumb(make([]float32, 200*100), []int{200, 100}, 0, 1)
	if err != nil || img.Height != 67 || img.Width != 34 {
		t.Errorf("a large picture gives %dx%d, %v", img.Height, img.Width, err)
	}
}

func pixels(t *testing.T, img Image) [][3]uint8 {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(img.URI()), "data:image/png;base64,"))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out [][3]uint8
	for y := range img.Height {
		for x := range img.Width {
			r, g, b, _ := decoded.At(x, y).RGBA()
			out = append(out, [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)})
		}
	}
	return out
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1.23456: "1.235", -12.3456: "−12.35", 123456: "123\u202f456", 1e9: "1.00e+09", 1e-5: "1.00e−05", 0.5: "0.500",
		math.Inf(1): "∞", math.Inf(-1): "−∞", 0.00123: "0.0012", -999.96: "−1000.0",
	} {
		if got := significant(v); got != want {
			t.Errorf("significant(%v) = %q, want %q", v, got, want)
		}
	}
	if got := significant(math.NaN()); got != dash {
		t.Errorf("NaN is shown as %q", got)
	}
	if got := fixed(-0.00001, 3); got != "0.000" {
		t.Errorf("fixed(-0.00001) = %q", got)
	}
	if got := count(-1234567); got != "−1\u202f234\u202f567" {
		t.Errorf("count = %q", got)
	}
}

func TestScalesHaveRoundTicks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 5).Draw(r, "values")
		s := around(values)
		for _, v := range values {
			if v < s.lo-1e-6 || v > s.hi+1e-6 {
				r.Fatalf("%v lies outside %v", v, s)
			}
		}
		n := 0
		for _, tick := range s.ticks(4) {
			if tick.value < s.lo-1e-6 || tick.value > s.hi+1e-6 {
				r.Fatalf("tick %v lies outside %v", tick, s)
			}
			n++
		}
		if n < 2 || n > 8 {
			r.Fatalf("%d ticks", n)
		}
	})
}
