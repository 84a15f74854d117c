package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a struct with lists of itself.
type tree struct {
	Kind     string  `yaml:"kind" required:"true" scalar:"true" enum:"leaf|branch" doc:"Which."`
	Size     int     `yaml:"size" min:"1" default:"7" doc:"How large."`
	Branches []tree  `yaml:"branches" doc:"What grows on it."`
	Other    *forest `yaml:"other" doc:"More."`
}

type forest struct {
	Trees []tree `yaml:"trees" doc:"Trees."`
}

type treeStage struct {
	Trees []tree `yaml:"trees" doc:"Trees."`
}

func (s *treeStage) Lint(*LintContext)                      {}
func (s *treeStage) Run(context.Context, *RunContext) error { return nil }

func loadTrees(t *testing.T, trees string) ([]tree, *Registry, error) {
	t.Helper()
	reg := NewRegistry(Kind{Name: "grow", Version: 1, Summary: "Grows.", New: func() Stage { return &treeStage{} }})
	path := filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(path, []byte("version: 1\nname: t\nstages:\n  grow: {trees: "+trees+"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(path, reg)
	if err != nil {
		return nil, reg, err
	}
	return cfg.Stages[0].Config.(*treeStage).Trees, reg, nil
}

func TestStructsWithListsOfThemselves(t *testing.T) {
	trees, reg, err := loadTrees(t, "[leaf, {kind: branch, branches: [leaf, {kind: branch, size: 2, branches: leaf, other: {trees: [leaf]}}]}]")
	if err != nil {
		t.Fatal(err)
	}
	inner := trees[1].Branches[1]
	if trees[0].Kind != "leaf" || trees[0].Size != 7 || inner.Size != 2 || len(inner.Branches) != 1 || inner.Branches[0].Kind != "leaf" || inner.Other.Trees[0].Size != 7 {
		t.Errorf("decoded as %+v", trees)
	}
	for bad, want := range map[string]string{
		"[{kind: branch, branches: [{kind: brunch}]}]":        `stages.grow.trees[0].branches[0].kind: "brunch" is not one of leaf, branch; did you mean branch?`,
		"[{kind: branch, branches: [{size: 1}]}]":             "stages.grow.trees[0].branches[0].kind: the key is missing",
		"[{kind: branch, branches: [{kind: leaf, size: 0}]}]": "stages.grow.trees[0].branches[0].size",
	} {
		if _, _, err := loadTrees(t, bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", bad, err, want)
		}
	}
	page := Reference(reg)
	for _, want := range []string{"`trees[].branches` | list of mappings |  | What grows on it. With the same keys as this list. |", "`trees[].other.trees`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the reference lacks %q:\n%s", want, page[strings.Index(page, "Grows."):])
		}
	}
	if strings.Contains(page, "branches[].") {
		t.Error("the reference repeats the keys of an inner list")
	}
}
