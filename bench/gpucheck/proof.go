package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jempipe/jempipe/bench/peers"
	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// executors are ONNX Runtime's names of the providers.
var executors = map[string]string{"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}

// graph is one that is checked.
type graph struct {
	name    string
	model   []byte
	outputs []string // those that are compared
}

// walkSteps is how many updates the Langevin graph makes in the checks.
const walkSteps = 5

// scoreGraph is the score graph of a network with its weights built in.
func scoreGraph(net peers.Net) (graph, error) {
	g := graph{name: "score graph", outputs: []string{lower.OutputLogits, lower.OutputEnergy, lower.OutputScore}}
	arch, params, err := net.Init()
	if err != nil {
		return g, err
	}
	m, err := lower.Score(arch, params, lower.Options{})
	if err != nil {
		return g, err
	}
	g.model, err = ir.Marshal(m)
	return g, err
}

// walkGraph is the Langevin graph of a network with its weights built in.
func walkGraph(net peers.Net) (graph, error) {
	g := graph{name: "Langevin graph", outputs: []string{lower.OutputX, lower.OutputEnergy}}
	arch, params, err := net.Init()
	if err != nil {
		return g, err
	}
	r := peers.Config().Sampler.Rule
	walk := lower.Walk{GradClip: r.GradClip, NoiseStd: r.NoiseStd, Clamp: r.Clamp, Lo: r.Range[0], Hi: r.Range[1]}
	m, err := lower.Langevin(arch, params, lower.Options{}, walk, false)
	if err != nil {
		return g, err
	}
	g.model, err = ir.Marshal(m)
	return g, err
}

func (g graph) open(rt *ort.Runtime, o ort.SessionOptions) (*ort.Session, error) {
	o.Name = g.name
	return rt.Session(g.model, o)
}

// graphs proves and compares the score graph and the Langevin graph of a network.
func (c *check) graphs(ctx context.Context, net peers.Net) error {
	for _, build := range []func(peers.Net) (graph, error){scoreGraph, walkGraph} {
		g, err := build(net)
		if err != nil {
			return err
		}
		if err := c.prove(ctx, g); err != nil {
			return err
		}
		if err := c.compare(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// prove shows where the nodes of a graph run, by ONNX Runtime's own profile of two runs.
func (c *check) prove(ctx context.Context, g graph) error {
	dir, err := os.MkdirTemp("", "jempipe-gpu-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	session, err := g.open(c.rt, ort.SessionOptions{Profile: filepath.Join(dir, "profile")})
	if err != nil {
		return err
	}
	_, err = g.run(ctx, session, 64)
	session.Close() // writes the profile
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "profile*.json"))
	if err != nil || len(files) != 1 {
		return fault.New(fault.Internal, dir, "ONNX Runtime wrote %d profiles, wanted one", len(files))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	places, err := placements(data)
	if err != nil {
		return err
	}
	text, err := judge(places, executors[c.provider])
	fmt.Fprintf(c.out, "  nodes of the %s: %s\n", g.name, text)
	return err
}

// place is a provider's share of the runs of nodes in a profile.
type place struct {
	nodes    int
	computed []string // operators, sorted, that gave a tensor of floats with more than one element
}

// placements counts the runs of nodes in a profile by provider.
func placements(profile []byte) (map[string]*place, error) {
	var events []struct {
		Cat  string
		Args struct {
			Provider string             `json:"provider"`
			Op       string             `json:"op_name"`
			Outputs  []map[string][]int `json:"output_type_shape"`
		}
	}
	if err := json.Unmarshal(profile, &events); err != nil {
		return nil, fault.New(fault.Internal, "profile", "ONNX Runtime's profile is not the list of events that is wanted").Because(err)
	}
	places := map[string]*place{}
	for _, e := range events {
		if e.Cat != "Node" || e.Args.Provider == "" {
			continue
		}
		p := places[e.Args.Provider]
		if p == nil {
			p = &place{}
			places[e.Args.Provider] = p
		}
		p.nodes++
		for _, output := range e.Args.Outputs {
			shape, float := output["float"]
			at, known := slices.BinarySearch(p.computed, e.Args.Op)
			if float && model.Size(shape) > 1 && !known {
				p.computed = slices.Insert(p.computed, at, e.Args.Op)
			}
		}
	}
	return places, nil
}

// judge says where nodes ran. It is an error if none ran on the wanted provider, or if one that computes with values of
// the network ran elsewhere: ONNX Runtime keeps shapes and indices, a few integers, on the CPU whatever the provider,
// and copies between the two are nodes too.
func judge(places map[string]*place, wanted string) (string, error) {
	var parts, astray []string
	for _, name := range slices.Sorted(maps.Keys(places)) {
		parts = append(parts, fmt.Sprintf("%d on %s", places[name].nodes, name))
		for _, op := range places[name].computed {
			if name != wanted && !strings.HasPrefix(op, "Memcpy") {
				astray = append(astray, op)
			}
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case places[wanted] == nil:
		return text, fault.New(fault.Internal, "provider", "no node ran on %s: the graph ran elsewhere (%s)", wanted, text).
			Do("look at the log of ONNX Runtime for why the provider was not used")
	case len(astray) > 0:
		return text, fault.New(fault.Internal, "provider", "operators that %s was to run ran elsewhere: %s", wanted, strings.Join(astray, ", ")).
			Do("use a build of ONNX Runtime whose provider has them")
	}
	return text, nil
}
