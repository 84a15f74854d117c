package pipeline

import (
	"log/slog"
	"math"
	"strings"
	"time"
)

// Observer watches a run. Its methods are called from one goroutine at a time and return soon.
type Observer interface {
	StageStarted(StageEvent)
	StageProgress(ProgressEvent)
	StageDone(StageEvent)
	StageReused(StageEvent)
	StageFailed(StageEvent) // also when the run was cancelled
}

// StageEvent is a stage that begins or ends.
type StageEvent struct {
	Name, Kind   string
	Index, Total int      // position among all stages, from 1
	Why          []string // started: why it runs; reused: why it was looked at, where it was
	Wall         time.Duration
	Rows         int64 // done, reused: rows of its tables
	Err          error // failed
}

// ProgressEvent is work within a stage. Events come at most ten times a second, the last one always.
type ProgressEvent struct {
	Name, Kind  string
	Done, Total int64    // Total 0: not known
	Unit        string   // what is counted, such as steps; may be empty
	Text        string   // such as the data set that is worked on; may be empty
	Figures     []Figure // how the work goes, the most telling first; may be empty
	// PerSecond is the rate of Done since the stage took up its work, or since it last went back; 0: not known yet.
	PerSecond float64
	Left      time.Duration // to the end at this rate; 0: not known
}

// Figure is a named number.
type Figure struct {
	Name  string // as a key of a log, such as valid_accuracy
	Value float64
}

// Observers passes every event to several observers.
func Observers(list ...Observer) Observer { return observers(list) }

type observers []Observer

func (o observers) StageStarted(e StageEvent) {
	for _, w := range o {
		w.StageStarted(e)
	}
}

func (o observers) StageProgress(e ProgressEvent) {
	for _, w := range o {
		w.StageProgress(e)
	}
}

func (o observers) StageDone(e StageEvent) {
	for _, w := range o {
		w.StageDone(e)
	}
}

func (o observers) StageReused(e StageEvent) {
	for _, w := range o {
		w.StageReused(e)
	}
}

func (o observers) StageFailed(e StageEvent) {
	for _, w := range o {
		w.StageFailed(e)
	}
}

// LogObserver writes stages to a log at level info, and progress every ten seconds.
func LogObserver(log *slog.Logger) Observer { return &logObserver{log: log} }

type logObserver struct {
	log  *slog.Logger
	last time.Time
}

func (o *logObserver) StageStarted(e StageEvent) {
	o.last = time.Now()
	o.log.Info("stage started", "stage", e.Name, "kind", e.Kind, "index", e.Index, "of", e.Total, "why", strings.Join(e.Why, "; "))
}

func (o *logObserver) StageProgress(e ProgressEvent) {
	if now := time.Now(); now.Sub(o.last) >= 10*time.Second {
		o.last = now
		o.log.Info("stage progress", e.attributes()...)
	}
}

// attributes are an event for a log. What is not known is left out.
func (e ProgressEvent) attributes() []any {
	out := []any{"stage", e.Name, "done", e.Done, "total", e.Total}
	if e.Unit != "" {
		out = append(out, "unit", e.Unit)
	}
	if e.PerSecond > 0 {
		out = append(out, "per_second", rounded(e.PerSecond))
	}
	if e.Left > 0 {
		out = append(out, "eta_seconds", int64(e.Left.Round(time.Second)/time.Second))
	}
	for _, f := range e.Figures {
		out = append(out, f.Name, rounded(f.Value))
	}
	if e.Text != "" {
		out = append(out, "text", e.Text)
	}
	return out
}

// rounded is a number with the digits that a reader of a log can use.
func rounded(v float64) float64 { return math.Round(v*1e4) / 1e4 }

func (o *logObserver) StageDone(e StageEvent) {
	o.log.Info("stage done", "stage", e.Name, "seconds", e.Wall.Round(time.Millisecond).Seconds(), "rows", e.Rows)
}

func (o *logObserver) StageReused(e StageEvent) {
	o.log.Info("stage reused", "stage", e.Name, "index", e.Index, "of", e.Total)
}

func (o *logObserver) StageFailed(e StageEvent) {
	o.log.Error("stage failed", "stage", e.Name, "seconds", e.Wall.Round(time.Millisecond).Seconds(), "error", e.Err)
}
