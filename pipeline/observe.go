package pipeline

import (
	"log/slog"
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
	Done, Total int64 // Total 0: not known
	Text        string
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
		o.log.Info("stage progress", "stage", e.Name, "done", e.Done, "total", e.Total, "text", e.Text)
	}
}

func (o *logObserver) StageDone(e StageEvent) {
	o.log.Info("stage done", "stage", e.Name, "seconds", e.Wall.Round(time.Millisecond).Seconds(), "rows", e.Rows)
}

func (o *logObserver) StageReused(e StageEvent) {
	o.log.Info("stage reused", "stage", e.Name, "index", e.Index, "of", e.Total)
}

func (o *logObserver) StageFailed(e StageEvent) {
	o.log.Error("stage failed", "stage", e.Name, "seconds", e.Wall.Round(time.Millisecond).Seconds(), "error", e.Err)
}
