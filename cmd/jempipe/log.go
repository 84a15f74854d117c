package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
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
		return pipeline.Observers(watch, &barObserver{w: f, columns: func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return columns
		}})
	}
	return watch
}

// barObserver draws a bar for the stage that runs.
type barObserver struct {
	w       io.Writer
	columns func() int // of the terminal
	bar     *progressbar.ProgressBar
	beside  int // columns that bar takes beside its description
}

// roomy is how many columns a terminal needs for a bar with counts; a narrower one keeps its room for the figures.
const roomy = 100

// StageStarted implements pipeline.Observer.
func (o *barObserver) StageStarted(pipeline.StageEvent) {}

// StageProgress implements pipeline.Observer.
func (o *barObserver) StageProgress(e pipeline.ProgressEvent) {
	columns := o.columns()
	if o.bar == nil || o.bar.GetMax64() != e.Total {
		o.clear()
		options := []progressbar.Option{progressbar.OptionSetWriter(o.w), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionUseANSICodes(os.Getenv("NO_COLOR") == "")}
		o.beside = len("  100% || ") + 10
		if columns >= roomy {
			o.beside += 10 + 2*len(fmt.Sprint(e.Total)) + len("(/) ")
			options = append(options, progressbar.OptionSetWidth(20), progressbar.OptionShowCount())
		} else {
			options = append(options, progressbar.OptionSetWidth(10))
		}
		o.bar = progressbar.NewOptions64(e.Total, options...)
	}
	o.bar.Describe(describe(e, columns-o.beside))
	// a bar that cannot be drawn is no reason to stop the work
	_ = o.bar.Set64(e.Done)
}

// describe says in at most room characters how the work goes: as many of its figures as fit, the rate and the time
// left first.
func describe(e pipeline.ProgressEvent, room int) string {
	var parts []string
	if e.PerSecond > 0 {
		digits := max(0, 2-int(math.Floor(math.Log10(e.PerSecond))))
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%.*f %s", min(digits, 4), e.PerSecond, e.Unit), " ")+"/s")
	}
	if e.Left > 0 {
		parts = append(parts, "ETA "+e.Left.Round(time.Second).String())
	}
	if e.Text != "" {
		parts = append(parts, e.Text)
	}
	for _, f := range e.Figures {
		parts = append(parts, fmt.Sprintf("%s %.3f", strings.ReplaceAll(f.Name, "_", " "), f.Value))
	}
	text := e.Name
	for i, part := range parts {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		if len(text)+len(separator)+len(part) > room {
			break
		}
		text += separator + part
	}
	return text
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
