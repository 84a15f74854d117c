package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/jempipe/jempipe/pipeline"
)

const defaultFile = "pipeline.yaml"

func (a *app) runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run the stages that are not up to date",
		ArgsUsage: "[pipeline.yaml]",
		Description: `Runs the pipeline. Stages whose results still hold are reused, so that a second
run does nothing, and a run that was killed goes on where it stopped. Results
go to runs/NAME beside the YAML file; run.json there says what was done.`,
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "force", Usage: "run this stage even if its result holds; may be repeated"},
			&cli.StringSliceFlag{Name: "only", Usage: "run this stage alone; what it needs must be up to date; may be repeated"},
		}, common()...),
		Action: stoppable(func(c *cli.Context) error {
			cfg, opts, err := a.load(c)
			if err != nil {
				return err
			}
			res, err := pipeline.Run(c.Context, cfg, opts)
			if err != nil {
				return err
			}
			a.summary(res)
			return nil
		}),
	}
}

// load reads the pipeline of a command line and the options that go with it.
func (a *app) load(c *cli.Context) (*pipeline.Config, pipeline.Options, error) {
	log, err := a.logger(c)
	if err != nil {
		return nil, pipeline.Options{}, err
	}
	file, err := oneFile(c, defaultFile)
	if err != nil {
		return nil, pipeline.Options{}, err
	}
	cfg, err := pipeline.Load(file, a.registry)
	if err != nil {
		return nil, pipeline.Options{}, err
	}
	if lib := c.String("onnxruntime"); lib != "" {
		cfg.Runtime.Library = lib
	}
	return cfg, pipeline.Options{Log: log, Observer: a.observer(c, log), ToolVersion: version,
		Force: c.StringSlice("force"), Only: c.StringSlice("only")}, nil
}

// summary tells on stdout what a run did and where its results are.
func (a *app) summary(res *pipeline.Result) {
	dir := relative(res.RunDir)
	switch {
	case res.UpToDate():
		fmt.Fprintf(a.stdout, "nothing to do: all %d stages of %s are up to date\n", len(res.Reused), dir)
	default:
		var parts []string
		for _, p := range []struct {
			what   string
			stages []string
		}{{"ran", res.Ran}, {"reused", res.Reused}, {"left out though not up to date:", res.Left}} {
			if len(p.stages) > 0 {
				parts = append(parts, p.what+" "+strings.Join(p.stages, ", "))
			}
		}
		fmt.Fprintf(a.stdout, "done: %s\n", strings.Join(parts, "; "))
	}
	for _, s := range res.Record.Stages {
		page := filepath.Join(res.RunDir, s.Name, "index.html")
		if _, err := os.Stat(page); err == nil && s.Kind == "report" {
			fmt.Fprintf(a.stdout, "report: %s\n", relative(page))
		}
	}
	fmt.Fprintf(a.stdout, "tables: %s\n", filepath.Join(dir, "*", "tables", "*.parquet"))
}

// relative is a path from the working directory where that is shorter to read.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}

func (a *app) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "say what run would do and why, and change nothing",
		ArgsUsage: "[pipeline.yaml]",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "force", Usage: "as for run"},
			&cli.StringSliceFlag{Name: "only", Usage: "as for run"},
		}, common()...),
		Action: stoppable(func(c *cli.Context) error {
			cfg, opts, err := a.load(c)
			if err != nil {
				return err
			}
			plan, err := pipeline.NewPlan(c.Context, cfg, opts)
			if err != nil {
				return err
			}
			return plan.Format(a.stdout)
		}),
	}
}

func (a *app) checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "look for mistakes in the YAML file and in the files that it names",
		ArgsUsage: "[pipeline.yaml]",
		Description: `Lists every finding at once, each with file:line:column. Opens the data sets'
headers and schemas but reads no rows. Models of others are taken in and their
gradients tested on a few rows, as the run will do it.`,
		Flags: common(),
		Action: stoppable(func(c *cli.Context) error {
			cfg, opts, err := a.load(c)
			if err != nil {
				return err
			}
			if err := cfg.Check(); err != nil {
				return err
			}
			notes, err := cfg.Try(c.Context, opts.Log)
			for _, note := range notes {
				fmt.Fprintln(a.stdout, note)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s: no findings; %d data sets, %d stages\n", cfg.File, len(cfg.Data), len(cfg.Stages))
			return nil
		}),
	}
}
