package stages

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/outputs"
)

// noEnergyKey is the metadata key of predictions that says why no row has an energy.
const noEnergyKey = "no_energy"

// Reasons why predictions have no score_norm, beside that the model has no energy; they stand in the metadata under
// noScoreKey.
const (
	noGradient  = "no_gradient"  // the model cannot be differentiated
	notComputed = "not_computed" // infer was told to leave it out
)

// predictionSet is the predictions of one data set on disk.
type predictionSet struct {
	Dataset string
	Parts   []outputs.Part
	Meta    outputs.Meta
	Rows    int64
}

// openPredictions finds the predictions of a data set in a stage's directory.
func openPredictions(stageDir, dataset string) (predictionSet, error) {
	dir := filepath.Join(stageDir, "predictions", "dataset="+dataset)
	p := predictionSet{Dataset: dataset}
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		stage := filepath.Base(stageDir)
		return p, fault.New(fault.Config, "stages."+stage, "has no predictions of data set %s", dataset).
			Do("name %s under id or ood of stage %s", dataset, stage)
	}
	var err error
	if p.Parts, err = outputs.Parts(dir); err != nil {
		return p, err
	}
	for _, part := range p.Parts {
		p.Rows += part.Rows
	}
	p.Meta, err = outputs.ReadMeta(p.Parts[0].Path)
	return p, err
}

// predictedDatasets lists the data sets that a stage has predictions of, by name.
func predictedDatasets(stageDir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(stageDir, "predictions"))
	if err != nil {
		return nil, fault.New(fault.Data, stageDir, "no predictions").Because(err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), "dataset="); ok && e.IsDir() {
			names = append(names, name)
		}
	}
	return names, nil
}

// eachRow passes over the rows of a data set in order, reading only the columns of T. The row is valid during the call.
func eachRow[T any](ctx context.Context, p predictionSet, f func(at int64, row *T) error) error {
	at := int64(0)
	for _, part := range p.Parts {
		err := outputs.Read(part.Path, func(rows []T) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			for i := range rows {
				if err := f(at, &rows[i]); err != nil {
					return err
				}
				at++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
