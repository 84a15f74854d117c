// Package stages holds the stage kinds of a pipeline, one a file: its configuration with the documentation of every
// key, its checks and its work. cmd registers them; nothing else imports this package.
package stages

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/outputs"
	"github.com/jempipe/jempipe/pipeline"
)

// Kinds lists all stage kinds.
func Kinds() []pipeline.Kind {
	return []pipeline.Kind{TrainKind(), ModelKind(), ExportKind(), InferKind(), SGLDKind(), CalibrateKind(), OODKind(), ReportKind()}
}

// stageSeed keys the random streams of a stage by the run's seed and the stage's name.
func stageSeed(rc *pipeline.RunContext) uint64 { return keyed.New(rc.Seed, "stage "+rc.Name).Seed(0) }

// keepGood removes the rows that could not be decoded and says how many they were.
func keepGood(rows *datasets.Rows, width int) int {
	good := 0
	for i := range rows.Len() {
		if rows.Status[i] != datasets.StatusOK {
			continue
		}
		if len(rows.IDStrings) > 0 {
			rows.IDStrings[good] = rows.IDStrings[i]
		} else {
			rows.IDs[good] = rows.IDs[i]
		}
		rows.Labels[good], rows.HasLabel[good] = rows.Labels[i], rows.HasLabel[i]
		rows.Status[good], rows.Reason[good] = rows.Status[i], rows.Reason[i]
		copy(rows.X[good*width:(good+1)*width], rows.X[i*width:(i+1)*width])
		good++
	}
	dropped := rows.Len() - good
	if len(rows.IDStrings) > 0 {
		rows.IDStrings = rows.IDStrings[:good]
	} else {
		rows.IDs = rows.IDs[:good]
	}
	rows.Labels, rows.HasLabel = rows.Labels[:good], rows.HasLabel[:good]
	rows.Status, rows.Reason, rows.X = rows.Status[:good], rows.Reason[:good], rows.X[:good*width]
	return dropped
}

// labelsOf gives the labels of rows, -1 where there is none.
func labelsOf(rows *datasets.Rows) []int32 {
	out := slices.Clone(rows.Labels)
	for i, has := range rows.HasLabel {
		if !has {
			out[i] = -1
		}
	}
	return out
}

// checkDistinct reports names that occur twice in a list.
func checkDistinct[T ~string](lc *pipeline.LintContext, key string, list []T) {
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			lc.Problem(key, "%s is named twice", name)
		}
	}
}

// checkScored reports data sets that an infer stage does not score.
func checkScored(lc *pipeline.LintContext, key string, stage pipeline.StageRef, refs ...pipeline.DataRef) {
	infer, ok := linted(lc)(stage).(*Infer)
	if !ok {
		return
	}
	for _, r := range refs {
		if r != "" && !slices.Contains(infer.ID, r) && !slices.Contains(infer.OOD, r) {
			lc.Problem(key, "stage %s does not score data set %s: name it under id or ood there", stage, r)
		}
	}
}

// tableMeta is the metadata of every Parquet file of a stage.
func tableMeta(rc *pipeline.RunContext, modelHash string, classes []string) outputs.Meta {
	seed := rc.Seed
	return outputs.Meta{ToolVersion: rc.ToolVersion, ConfigHash: rc.ConfigHash, ModelHash: modelHash, InputHashes: rc.InputHashes(),
		Provider: rc.RunRecord().Runtime.Provider, Seed: &seed, ClassNames: classes}
}

// writeTable writes tables/NAME.parquet.
func writeTable[T any](rc *pipeline.RunContext, name string, meta outputs.Meta, rows []T) error {
	path := rc.Dir.Path("tables", name+".parquet")
	if err := outputs.WriteAll(path, meta.Map(), rows); err != nil {
		return err
	}
	rc.Rows(path, int64(len(rows)))
	return nil
}

// writeModel writes an ONNX file.
func writeModel(path string, m *onnxpb.ModelProto) error {
	data, err := ir.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return outputs.WriteFileAtomic(path, data)
}

// text is a nullable column's value: null for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func writeSafetensors(path string, ps model.Params, meta map[string]string) error {
	var buf bytes.Buffer
	if err := model.WriteSafetensors(&buf, ps, meta); err != nil {
		return err
	}
	return outputs.WriteFileAtomic(path, buf.Bytes())
}

func readSafetensors(path string) (model.Params, map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fault.New(fault.Data, path, "cannot be read").Because(err)
	}
	ps, meta, err := model.ReadSafetensors(data)
	if err != nil {
		return nil, nil, fault.New(fault.Data, path, "not a safetensors file").Because(err)
	}
	return ps, meta, nil
}
