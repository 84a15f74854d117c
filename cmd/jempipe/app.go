package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/stages"
)

// watchSignals gives a context that the first SIGINT or SIGTERM cancels; the second one ends the process at once.
// signalled gives the exit code of the signal that came, or 0.
func watchSignals(parent context.Context) (ctx context.Context, stop func(), signalled func() int) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	var code atomic.Int32
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if code.Load() != 0 {
				os.Exit(int(code.Load()))
			}
			code.Store(130)
			if s == syscall.SIGTERM {
				code.Store(143)
			}
			cancel()
		}
	}()
	stop = func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
	return ctx, stop, func() int { return int(code.Load()) }
}

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
	registry       *pipeline.Registry
}

// run parses and runs one command line and gives the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, signalled func() int) int {
	a := &app{stdout: stdout, stderr: stderr, registry: pipeline.NewRegistry(stages.Kinds()...)}
	c := a.cli()
	err := c.RunContext(ctx, flagsFirst(args, c.Commands))
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "jempipe: %v\n", err)
	if code := signalled(); code != 0 && errors.Is(err, context.Canceled) {
		return code
	}
	return fault.ExitCode(err)
}

func (a *app) cli() *cli.App {
	c := &cli.App{
		Name:    "jempipe",
		Usage:   "how sure is a classifier, and has it seen anything like this before?",
		Version: version,
		Description: `jempipe runs a pipeline that a YAML file describes: it trains a joint energy-based
model, exports it to ONNX, scores data sets with it, draws samples, fits a
calibration, compares out-of-distribution detectors, and writes Parquet tables
and one HTML report.

Start with:  jempipe run pipeline.yaml
Then open:   runs/NAME/report/index.html

Exit codes:  0 done, also when there was nothing to do
             1 a stage failed          2 the command line is wrong
             3 the YAML is wrong       4 input data or a model file is wrong
             130, 143 stopped by SIGINT, SIGTERM`,
		Writer: a.stdout, ErrWriter: a.stderr,
		HideVersion:     true,
		HideHelpCommand: true,
		CommandNotFound: nil,
		ExitErrHandler:  func(*cli.Context, error) {}, // run decides
		OnUsageError:    usageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
	c.Commands = []*cli.Command{a.runCommand(), a.planCommand(), a.checkCommand(), a.inspectCommand(), a.doctorCommand(), a.docsCommand(), a.versionCommand()}
	for _, cmd := range c.Commands {
		cmd.OnUsageError = usageError
		cmd.HideHelpCommand = true
	}
	return c
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return fault.New(fault.Usage, "", "%v", err).Do("see jempipe --help")
}
