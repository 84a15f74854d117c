package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/stages"
)

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
	registry       *pipeline.Registry
	json           bool // the log is in JSON
}

// run parses and runs one command line and gives the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr, registry: pipeline.NewRegistry(stages.Kinds()...)}
	c := a.cli()
	err := c.RunContext(ctx, flagsFirst(args, c.Commands))
	if err == nil {
		return 0
	}
	code := fault.ExitCode(err)
	var stopped *signalError
	if errors.As(err, &stopped) {
		code = stopped.code
	}
	a.tell(err, code)
	return code
}

// tell writes the error of a command to stderr: a record of the log where that is in JSON, so that every line of
// stderr is.
func (a *app) tell(err error, code int) {
	if a.json {
		slog.New(slog.NewJSONHandler(a.stderr, nil)).Error(err.Error(), "exit_code", code)
		return
	}
	fmt.Fprintf(a.stderr, "jempipe: %v\n", err)
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
		ExitErrHandler: func(*cli.Context, error) {}, // run decides
		OnUsageError:   usageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
	}
	c.Commands = []*cli.Command{a.runCommand(), a.planCommand(), a.checkCommand(), a.inspectCommand(), a.exportCommand(), a.doctorCommand(), a.docsCommand(), a.versionCommand()}
	for _, cmd := range c.Commands {
		for _, each := range append(cmd.Subcommands, cmd) {
			each.OnUsageError = usageError
			each.HideHelpCommand = true
		}
	}
	return c
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return fault.New(fault.Usage, "", "%v", err).Do("see jempipe --help")
}
