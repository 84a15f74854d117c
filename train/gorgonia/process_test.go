package gorgonia

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// program is a separate binary: gorgonia depends on go4.org/unsafe/assume-no-moving-gc, old versions of which panic at
// start on a new Go. go.mod pins one that does not. It prints a hash of the weights after a few steps.
const program = `package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/train/gorgonia"
)

func main() {
	a := model.Arch{Name: "test", Input: []int{1, 8, 8}, Classes: 10, Layers: []model.Layer{
		{Kind: model.Conv, Name: "a", Out: 6, Kernel: 3, Stride: 2, Pad: 1},
		{Kind: model.Act, Name: "b", Func: model.SiLU},
		{Kind: model.Flatten, Name: "c"},
		{Kind: model.Dense, Name: "d", Out: 10},
	}}
	p, err := a.Init(func(i int) *rand.Rand { return rand.New(rand.NewPCG(1, uint64(i))) })
	check(err)
	e, err := gorgonia.New(a, p, 9, 2, 0)
	check(err)
	u, err := gorgonia.NewUpdater(gorgonia.DefaultSolver(), p, e.Grads())
	check(err)
	b := gorgonia.Batch{X: make([]float32, 9*64), Alpha: make([]float32, 9), Beta: make([]float32, 9), Gamma: make([]float32, 90)}
	for step := range 10 {
		rng := rand.New(rand.NewPCG(2, uint64(step)))
		for _, s := range [][]float32{b.X, b.Alpha, b.Beta, b.Gamma} {
			for i := range s {
				s[i] = float32(rng.NormFloat64())
			}
		}
		for _, g := range e.Grads() {
			clear(g.Data)
		}
		_, err := e.Gradients(b)
		check(err)
		check(u.Step(1e-2))
	}
	check(e.Close())
	h := fnv.New64a()
	for _, t := range p {
		for _, v := range t.Data {
			fmt.Fprintf(h, "%x ", math.Float32bits(v))
		}
	}
	fmt.Printf("%x\n", h.Sum64())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
`

func TestBinaryStartsAndProcessesAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-o", binary, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var first string
	for _, procs := range []int{2, 1, 4} {
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := strings.TrimSpace(string(out))
		if first == "" {
			first = got
		}
		if got != first || len(got) == 0 {
			t.Errorf("GOMAXPROCS %d: weights %s, want %s", procs, got, first)
		}
	}
}
