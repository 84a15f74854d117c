package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/jempipe/jempipe/internal/fault"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/pipeline"
)

// common are the flags of every command that reads a pipeline.
func common() []cli.Flag {
	return []cli.Flag{
		onnxruntimeFlag(),
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "text or json, on stderr"},
		&cli.StringFlag{Name: "log-level", Value: "info", Usage: "debug, info, warn or error"},
		&cli.BoolFlag{Name: "no-progress", Usage: "no progress bar, even on a terminal"},
	}
}

// logger makes the log that the flags ask for.
func (a *app) logger(c *cli.Context) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, fault.New(fault.Usage, "", "--log-level %q: want debug, info, warn or error", c.String("log-level"))
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.String("log-format") {
	case "json":
		a.json = true
		return slog.New(slog.NewJSONHandler(a.stderr, opts)), nil
	case "text":
		opts.ReplaceAttr = func(groups []string, at slog.Attr) slog.Attr {
			if len(groups) == 0 && at.Key == slog.TimeKey {
				at.Value = slog.StringValue(at.Value.Time().Format(time.TimeOnly))
			}
			return at
		}
		return slog.New(slog.NewTextHandler(a.stderr, opts)), nil
	}
	return nil, fault.New(fault.Usage, "", "--log-format %q: want text or json", c.String("log-format"))
}

// observer watches a run: the log, and a progress bar where stderr is a terminal and nobody asked for JSON.
func (a *app) observer(c *cli.Context, log *slog.Logger) pipeline.Observer {
	watch := pipeline.LogObserver(log)
	f, ok := a.stderr.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) && os.Getenv("CI") == "" && c.String("log-format") == "text" && !c.Bool("no-progress") {
		return pipeline.Observers(watch, &barObserver{w: f})
	}
	return watch
}

// barObserver draws a bar for the stage that runs.
type barObserver struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

// StageStarted implements pipeline.Observer.
func (o *barObserver) StageStarted(pipeline.StageEvent) {}

// StageProgress implements pipeline.Observer.
func (o *barObserver) StageProgress(e pipeline.ProgressEvent) {
	if o.bar == nil || o.bar.GetMax64() != e.Total {
		o.clear()
		o.bar = progressbar.NewOptions64(e.Total, progressbar.OptionSetWriter(o.w), progressbar.OptionSetWidth(24),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionUseANSICodes(os.Getenv("NO_COLOR") == ""))
	}
	o.bar.Describe(e.Name + ": " + e.Text)
	// a bar that cannot be drawn is no reason to stop the work
	_ = o.bar.Set64(e.Done)
}

// StageDone implements pipeline.Observer.
func (o *barObserver) StageDone(pipeline.StageEvent) { o.clear() }

// StageReused implements pipeline.Observer.
func (o *barObserver) StageReused(pipeline.StageEvent) {}

// StageFailed implements pipeline.Observer.
func (o *barObserver) StageFailed(pipeline.StageEvent) { o.clear() }

func (o *barObserver) clear() {
	if o.bar != nil {
		_ = o.bar.Clear()
		o.bar = nil
	}
}

// onnxruntimeFlag names the library. The environment variable is read by package runtime, which says so in its errors.
func onnxruntimeFlag() cli.Flag {
	return &cli.StringFlag{Name: "onnxruntime", TakesFile: true,
		Usage: "shared library of ONNX Runtime; if absent, " + ort.Environment + ", beside the program, the cache and the system are searched"}
}
