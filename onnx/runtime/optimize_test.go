package runtime_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func TestOptimize(t *testing.T) {
	r := open(t)
	value := func(name string) testValue { return testValue{name: name, typ: typeFloat, shape: []int64{-1, 2}} }
	model := testModel{inputs: []testValue{value("x")}, outputs: []testValue{value("y")}, nodes: []testNode{
		{op: "Relu", in: []string{"x"}, out: []string{"h"}},
		{op: "Identity", in: []string{"h"}, out: []string{"i"}},
		{op: "Neg", in: []string{"i"}, out: []string{"y"}},
	}}.encode()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for _, c := range []struct {
		without []string
		kept    bool
	}{{nil, false}, {[]string{"EliminateIdentity"}, true}} {
		optimised, err := r.Optimize(model, ort.SessionOptions{Name: "test.onnx", Without: c.without})
		if err != nil {
			t.Fatal(err)
		}
		if found := bytes.Contains(optimised, []byte("Identity")); found != c.kept {
			t.Errorf("without %v: the optimised model has an Identity: %t, want %t", c.without, found, c.kept)
		}
		out := []*ort.Tensor{tensor(t, []int64{1, 2})}
		if err := load(t, r, optimised).Run(context.Background(), []*ort.Tensor{tensor(t, []int64{1, 2}, -3, 5)}, out); err != nil {
			t.Fatal(err)
		}
		if got := out[0].Data(); !slices.Equal(got, []float32{0, -5}) {
			t.Errorf("without %v: the optimised model gives %v, want [0 -5]", c.without, got)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v, %v", left, err)
	}
	if _, err := r.Optimize([]byte("none"), ort.SessionOptions{Name: "none.onnx"}); err == nil || !strings.Contains(err.Error(), "none.onnx") {
		t.Errorf("got %v, want an error that names the model", err)
	}
	t.Setenv("TMPDIR", filepath.Join(temporary, "absent"))
	if _, err := r.Optimize(model, ort.SessionOptions{}); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("got %v, want an error that says what to do about the folder", err)
	}
}
