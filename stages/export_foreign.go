package stages

import (
	"context"
	"os"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/pipeline"
)

// foreign exports the model of a model stage: its classifier as it is, and its score where it has one. A model without a
// gradient is no failure: everything that needs none can be computed of it.
func (e *Export) foreign(ctx context.Context, rc *pipeline.RunContext) error {
	m, err := loadForeign(rc.StageDir(e.Model))
	if err != nil {
		return err
	}
	extra := map[string]string{"fingerprint": rc.Fingerprint, "tool_version": rc.ToolVersion}
	supplied := modelPath(rc, e.Model, suppliedFile)
	score, why := (*onnxpb.ModelProto)(nil), error(nil)
	if _, err := os.Stat(supplied); err == nil {
		if score, err = ir.LoadFile(supplied); err != nil {
			return err
		}
		m.supplied = string(rc.StageConfig(e.Model).(*Model).Score)
	} else {
		score, why = m.score()
	}
	if why != nil {
		extra[noScoreKey] = reason(why)
		rc.Detail("no_score", reason(why))
		rc.Log.Warn("no score.onnx: score_norm and approximate_mass will be null", "reason", reason(why))
	} else {
		if from, to := ir.Opset(m.Model), ir.Opset(score); to > from {
			rc.Detail("score_opset", map[string]int64{"model": from, "raised_to": to})
			rc.Log.Info("the model was raised for its gradient", "opset", from, "raised_to", to)
		}
		ir.SetMetadata(score, ir.Metadata(m.Model))
		ir.SetMetadata(score, extra)
		if err := e.testForeign(ctx, rc, m, score); err != nil {
			return err
		}
		if err := writeModel(rc.Dir.Path("models", scoreFile), score); err != nil {
			return err
		}
	}
	ir.SetMetadata(m.Model, extra)
	return writeModel(rc.Dir.Path("models", classifierFile), m.Model)
}

// noScoreKey is the metadata entry of a classifier that says why there is no score.onnx.
const noScoreKey = "no_score"

func (e *Export) testForeign(ctx context.Context, rc *pipeline.RunContext, m *foreign, score *onnxpb.ModelProto) error {
	width := model.Size(m.Preprocess.SampleShape)
	lo, hi := m.rawRange()
	raw, err := e.probe(ctx, rc, width, lo, hi)
	if err != nil {
		return err
	}
	rt, err := rc.Runtime()
	if err != nil {
		return err
	}
	report, err := m.selfTest(ctx, rt, score, testRows(raw, width), stageSeed(rc))
	tellTest(rc, report)
	return err
}

// rawRange is the range of raw values: what the data set states, else the raw image of [-1,1] in model space.
func (m *foreign) rawRange() (lo, hi float64) {
	return bundle{Lo: m.lo, Hi: m.hi, Preprocess: m.Preprocess}.rawRange()
}
