// Package report draws one run as one self-contained HTML page: no scripts, no network, charts as inline SVG, pictures
// as data URIs. The same report gives the same bytes.
package report

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
)

// Limits that bound the size of the page.
const (
	MaxPictures    = 300 // thumbnails on the page, samples and gallery together
	MaxCurvePoints = 500 // points of one curve
	maxMatrix      = 25  // classes up to which the confusion matrix is drawn whole
)

// Report is everything that is drawn. Tables are given as their rows; a section whose rows are missing is left out,
// with a line that says which stage gives them.
type Report struct {
	Title      string    // of the page, such as the name of the run
	Subtitle   string    // one sentence on what was run; may be empty
	Facts      []Fact    // versions, hashes, provider, seed: shown in the header in this order
	Findings   []Finding // what the caller found; the page adds its own from the tables
	Datasets   []Dataset // what was scored, in order
	ConfigPath string    // where the configuration lies, for the reader; may be empty
	Config     string    // the resolved configuration, YAML; may be empty

	Training []outputs.Training
	Energies []outputs.Energy
	Chains   *Snapshot // the newest picture of the chains of training; nil for none
	GapAlarm float64   // size of the energy gap that counts as divergence; 0: no band is drawn

	CalibrationMetrics []outputs.CalibrationMetric
	CalibrationBins    []outputs.CalibrationBin
	Recalibration      []outputs.Recalibration
	RiskCoverage       []outputs.RiskCoverage

	OODMetrics []outputs.OODMetric
	ROC        []outputs.ROC
	Histograms []outputs.Histogram
	Thresholds []outputs.Threshold

	PerClass  []outputs.PerClass
	Confusion []outputs.Confusion

	Samples     []outputs.Sample // the last state of each chain is drawn
	SampleShape []int            // [H,W], [C,H,W] or [H,W,C]
	SampleRange [2]float64       // values of black and white
	SamplesNote string           // how they were drawn; may be empty

	Gallery []GalleryGroup

	TablePaths map[string]string // where each table lies, by table name; default tables/NAME.parquet
}

// Fact is one line of the header.
type Fact struct {
	Name, Value string
	Note        string // shown on hover; may be empty
}

// Finding is something a reader should know before trusting the numbers.
type Finding struct {
	Text   string
	Anchor string // id of the section that shows it, such as quality; may be empty
}

// Dataset is what was read from one data set, and what was wrong with it.
type Dataset struct {
	Name, Role string // Role is id or ood
	Rows       int64
	Unlabelled int64         // rows without a label
	NotOK      []StatusCount // rows whose status is not ok, by reason
	Saturated  int64         // rows whose confidence is exactly 1
	Ties       int64         // rows with more than one largest logit
	Duplicates int64         // rows whose sample_id occurred before
	Constant   []string      // detectors with one and the same score for every row
}

// StatusCount counts rows with one status.
type StatusCount struct {
	Status string
	Reason string // an example
	Count  int64
}

// dropped is the number of rows that could not be scored.
func (d Dataset) dropped() int64 {
	var n int64
	for _, s := range d.NotOK {
		n += s.Count
	}
	return n
}

// Snapshot is a picture of the chains of one training step.
type Snapshot struct {
	Step   int64
	Image  *Image // nil where it cannot be shown
	Absent string // why
	Path   string // where the file lies, for the reader
}

// GalleryGroup is one row of pictures: most confident wrong, most ID-like OOD, most OOD-like ID.
type GalleryGroup struct {
	Title string
	Note  string // how the items were chosen
	Items []GalleryItem
}

// GalleryItem is one input with what the model said.
type GalleryItem struct {
	Image       *Image // nil where the input cannot be drawn
	ID, Dataset string
	Label, Pred string  // names; Label is empty where there is none
	Scores      []Score // such as confidence and energy
}

// Score is a named number under a picture.
type Score struct {
	Name  string
	Value float64 // NaN is shown as a dash
}

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS string

var page = template.Must(template.New("page").Funcs(functions).Parse(pageHTML))

// Write draws the report.
func Write(w io.Writer, r Report) error {
	var b bytes.Buffer
	if err := page.Execute(&b, newView(r)); err != nil {
		return fault.New(fault.Internal, "report", "cannot be drawn").Because(err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteFile draws the report into a file, whose name holds either the former content or all of the new.
func WriteFile(path string, r Report) error {
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		return err
	}
	return outputs.WriteFileAtomic(path, b.Bytes())
}
