package main

import (
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
	"github.com/jempipe/jempipe/stages"
)

func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "show what this machine offers: ONNX Runtime, providers that really work, cores",
		Flags: []cli.Flag{
			onnxruntimeFlag(),
		},
		Action: func(c *cli.Context) error {
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			defer w.Flush()
			fmt.Fprintf(w, "jempipe\t%s\n", version)
			fmt.Fprintf(w, "go\t%s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(w, "cores\t%d usable of %d\n", ort.Cores(), runtime.NumCPU())
			lib, err := ort.Find(c.String("onnxruntime"))
			if err != nil {
				fmt.Fprintf(w, "onnxruntime\tnot usable\n")
				return err
			}
			fmt.Fprintf(w, "onnxruntime\t%s (%s)\n", lib.Version, lib.Source)
			fmt.Fprintf(w, "library\t%s\n", lib.Path)
			for _, p := range ort.Providers(lib) {
				state := "works"
				if !p.Works {
					state = "not usable: " + p.Reason
				}
				fmt.Fprintf(w, "provider %s\t%s\n", p.Name, state)
			}
			return nil
		},
	}
}

func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "show the version",
		Action: func(*cli.Context) error {
			fmt.Fprintf(a.stdout, "jempipe %s (%s %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// docsCommand prints the reference pages that are made from the program itself. It is for make docs.
func (a *app) docsCommand() *cli.Command {
	return &cli.Command{
		Name:      "docs",
		Usage:     "print a reference page: pipeline (every key of the YAML file), tables (every table and column), or the keys of stage kind train",
		ArgsUsage: "pipeline|tables|train",
		Action: func(c *cli.Context) error {
			page, err := oneFile(c, "")
			if err != nil {
				return err
			}
			switch page {
			case "pipeline":
				fmt.Fprint(a.stdout, pipeline.Reference(a.registry))
			case "tables":
				fmt.Fprint(a.stdout, tablesIntro+outputs.MarkdownTables())
			case "train":
				fmt.Fprint(a.stdout, pipeline.KindReference(stages.TrainKind()))
			default:
				return unknownPage(page)
			}
			return nil
		},
	}
}

// tablesIntro is the head of docs/tables.md.
const tablesIntro = `# Tables

Every result of a run is a Parquet file, zstd-compressed, with standard three-level lists. ` + "`infer/predictions`" + ` holds the
scores as computed; ` + "`ood/predictions`" + ` holds the same rows with the decisions ` + "`flag_*` and `conf_calibrated`" + ` filled in, and is
the one to read where there is an ood stage.

` + "```sql" + `
-- DuckDB, in the run directory: how often is each data set flagged by its energy?
select dataset, role, count(*) as n, avg(flag_energy::int) as flagged
from 'ood/predictions/*/*.parquet' group by all order by role, dataset;
` + "```" + `

- **Signs.** ` + "`energy`" + ` is -logsumexp f(x): low = likely. Every ` + "`ood_*`" + ` column is larger for rows that look more out of
  distribution. OOD is the positive class wherever a metric has one; ` + "`positive_class`" + ` says so where both are given.
- **Null** is undefined, and a column beside it says why (` + "`status_reason`, `reason`" + `). There is no NaN, no 0 and no -1 for it.
- **Joining.** ` + "`dataset` and `sample_id`" + ` together name a row.
- **Metadata.** The key-value section of each file has schema_version, tool_version, config_hash, model_hash, seed, class_names
  (a JSON list in index order) and the direction of every detector.
- **Reading in Python.** ` + "`pandas.read_parquet(folder)`, `pyarrow.dataset.dataset(folder)`" + ` and DuckDB take the predictions folder as it
  is. pyarrow's explicit ` + "`partitioning=\"hive\"`" + ` clashes with the column
  ` + "`dataset`" + ` of the files: leave that argument out.
- New columns are nullable and come with a new minor schema_version; no column changes its type.

`
