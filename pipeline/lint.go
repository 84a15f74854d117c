package pipeline

import (
	"slices"

	"github.com/jempipe/jempipe/datasets"
)

// LintContext is what a stage kind sees of the configuration while it checks its keys.
type LintContext struct {
	l     *loader
	stage *StageConfig
}

// Name is the stage's name.
func (lc *LintContext) Name() string { return lc.stage.Name }

// Problem reports a finding at a key path within the stage, such as "optimizer.lr" or "layers[2]"; "" is the stage.
func (lc *LintContext) Problem(key, format string, args ...any) {
	path := lc.path(key)
	lc.l.add(lc.l.placeOf(path), path, Problem, format, args...)
}

// Has says whether the file gives a key, as against its default.
func (lc *LintContext) Has(key string) bool {
	_, ok := lc.l.values[lc.path(key)]
	return ok
}

// Data gives the entry that a reference names; false where there is none.
func (lc *LintContext) Data(ref DataRef) (datasets.Spec, bool) {
	spec, ok := lc.l.cfg.Data[string(ref)]
	return spec, ok
}

// Stage gives the kind and the configuration of the stage that a reference names; false where there is none or where it
// has findings itself.
func (lc *LintContext) Stage(ref StageRef) (kind string, config Stage, ok bool) {
	s := lc.l.cfg.Stage(string(ref))
	if s == nil || lc.l.broken[s.Name] {
		return "", nil, false
	}
	return s.Kind.Name, s.Config, true
}

// Others lists the stages of some kinds, in file order, without this one.
func (lc *LintContext) Others(kinds ...string) []StageRef {
	var out []StageRef
	for _, s := range lc.l.cfg.Stages {
		if s != lc.stage && slices.Contains(kinds, s.Kind.Name) {
			out = append(out, StageRef(s.Name))
		}
	}
	return out
}

// Seed is the run's seed.
func (lc *LintContext) Seed() uint64 { return lc.l.cfg.Seed }

func (lc *LintContext) path(key string) string {
	path := joined("stages", lc.stage.Name)
	if key != "" {
		path += "." + key
	}
	return path
}

// lintStages runs the kinds' own checks on the stages that are sound so far.
func (l *loader) lintStages() {
	for _, s := range l.cfg.Stages {
		if s.Config != nil && !l.broken[s.Name] {
			s.Config.Lint(&LintContext{l, s})
		}
	}
}
