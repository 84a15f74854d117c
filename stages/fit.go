package stages

import (
	"fmt"
	"slices"

	"github.com/jempipe/jempipe/datasets"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/pipeline"
)

// modelData is what a model expects of its inputs: that of the data set it was trained on.
type modelData struct {
	shape   []int
	classes []string
	lo, hi  float64 // range of raw values; equal where unknown
}

func infoModel(i datasets.Info) modelData { return modelData{i.Shape, i.Classes, i.Lo, i.Hi} }

// fits says what keeps a data set from being given to a model. labels: its labels are those of the model.
func fits(info datasets.Info, m modelData, labels bool) error {
	where := "data." + info.Name
	if !slices.Equal(info.Shape, m.shape) {
		return fault.New(fault.Data, where, "samples of shape %v, the model takes %v", info.Shape, m.shape)
	}
	if info.Lo < info.Hi && m.lo < m.hi && (info.Lo != m.lo || info.Hi != m.hi) {
		return fault.New(fault.Data, where, "values in [%g, %g], the model was trained on [%g, %g]", info.Lo, info.Hi, m.lo, m.hi).
			Do("bring the values to the model's scale, or correct range: at the data set")
	}
	if !labels || info.Classes == nil {
		return nil
	}
	if len(info.Classes) != len(m.classes) {
		return fault.New(fault.Data, where, "%d classes, the model has %d", len(info.Classes), len(m.classes))
	}
	for k, name := range info.Classes {
		if name != m.classes[k] && name != fmt.Sprint(k) && m.classes[k] != fmt.Sprint(k) {
			return fault.New(fault.Data, where, "class %d is %s, the model's class %d is %s", k, name, k, m.classes[k]).
				Do("list class_names in the order of the training set and renumber the labels")
		}
	}
	return nil
}

// trainedBy follows a model back to the stage that trained it; "" where that cannot be told.
func trainedBy(stage func(pipeline.StageRef) pipeline.Stage, ref pipeline.StageRef) pipeline.StageRef {
	switch s := stage(ref).(type) {
	case *Train, *Model:
		return ref
	case *Export:
		return trainedBy(stage, s.Model)
	case *Infer:
		return trainedBy(stage, s.Model)
	case *SGLD:
		return trainedBy(stage, s.Model)
	case *Calibrate:
		return trainedBy(stage, s.Predictions)
	case *OOD:
		return trainedBy(stage, s.Predictions)
	}
	return ""
}

// linted looks stages up while a configuration is checked.
func linted(lc *pipeline.LintContext) func(pipeline.StageRef) pipeline.Stage {
	return func(ref pipeline.StageRef) pipeline.Stage {
		_, s, _ := lc.Stage(ref)
		return s
	}
}

// checkSameModel reports a reference that goes back to another model than the one of the main reference, which happens
// easily with two models in one file, because absent keys take the stages of the usual names.
func checkSameModel(lc *pipeline.LintContext, main pipeline.StageRef, key string, ref pipeline.StageRef) {
	a, b := trainedBy(linted(lc), main), trainedBy(linted(lc), ref)
	if ref != "" && a != "" && b != "" && a != b {
		lc.Problem(key, "stage %s goes back to the model of stage %s, but %s to that of %s: name the stage that belongs to it, or leave the key empty (%s: \"\")", ref, b, main, a, key)
	}
}

// trainingData describes the data set that a model was trained on.
func trainingData(dc *pipeline.DataContext, ref pipeline.StageRef) (datasets.Info, bool) {
	switch s := dc.Stage(trainedBy(dc.Stage, ref)).(type) {
	case *Train:
		return dc.Data(s.Data)
	case *Model:
		info, ok := dc.Data(s.Data)
		if s.ClassNames != nil && len(info.Classes) == len(s.ClassNames) {
			info.Classes = s.ClassNames
		}
		return info, ok
	}
	return datasets.Info{}, false
}
