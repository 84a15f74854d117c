// Command gradients writes gradient graphs of a classifier for the comparison with other tools in this folder:
//
//	gradients MODEL.onnx -o score.onnx [-of READOUT] [-weights]
//
// The file takes in x what the model takes, and gives logits, energy and score: the gradient of the readout of each row
// with respect to that row. With -weights it also gives, as grad/NAME, the gradient of the sum of the readout over the
// batch with respect to each weight.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/jempipe/jempipe/onnx/gradient"
	"github.com/jempipe/jempipe/onnx/intake"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("gradients", flag.ContinueOnError)
	out := flags.String("o", "", "file to write")
	of := flags.String("of", "energy", "readout")
	weights := flags.Bool("weights", false, "also with respect to the weights")
	if len(args) == 0 {
		return errors.New("no model given")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	readout, err := lower.ParseReadout(*of)
	if err != nil {
		return err
	}
	c, err := open(args[0])
	if err != nil {
		return err
	}
	if *weights {
		if err := addWeights(c, readout); err != nil {
			return err
		}
	}
	if err := c.AddScore(readout, false); err != nil {
		return err
	}
	data, err := ir.Marshal(c.Model)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, data, 0o644)
}

// open takes in a model without preprocessing; its inputs must have fixed sizes but for the batch.
func open(path string) (*intake.Classifier, error) {
	m, err := intake.Read(path)
	if err != nil {
		return nil, err
	}
	shape, size := sampleShape(m)
	rng := rand.New(rand.NewPCG(1, 2))
	probe := make([]float32, 4*size)
	for i := range probe {
		probe[i] = rng.Float32()
	}
	rt, err := ort.Open(ort.Config{Provider: "cpu", Threads: 1}, nil)
	if err != nil {
		return nil, err
	}
	return intake.Adapt(context.Background(), rt, path, m, intake.Config{Preprocess: lower.Preprocess{SampleShape: shape}}, probe)
}

func sampleShape(m *onnxpb.ModelProto) (shape []int, size int) {
	size = 1
	_, dims, _ := ir.TensorType(m.Graph.Input[0])
	for _, d := range dims[min(1, len(dims)):] {
		shape = append(shape, int(d.Size))
		size *= int(d.Size)
	}
	return shape, size
}

// addWeights adds the gradients of the sum of the readout over the batch as outputs.
func addWeights(c *intake.Classifier, r lower.Readout) error {
	g, err := ir.NewGraph(c.Model)
	if err != nil {
		return err
	}
	var names []string
	var shapes [][]ir.Dim
	for _, t := range c.Model.Graph.Initializer {
		if t.GetDataType() == ir.Float32 && len(t.GetDims()) > 0 {
			names, shapes = append(names, t.GetName()), append(shapes, ir.FixedDims(t.GetDims()...))
		}
	}
	of, err := r.Add(g, lower.OutputLogits, c.Classes)
	if err != nil {
		return err
	}
	grads, err := gradient.Gradient(c.Model, of, names)
	if err != nil {
		return err
	}
	if g, err = ir.NewGraph(c.Model); err != nil {
		return err
	}
	for i, name := range names {
		to := "grad/" + name
		g.AddNamed(g.Unique("output/"+name), "Identity", []string{grads[i]}, []string{to})
		g.Output(to, ir.Float32, shapes[i]...)
	}
	return nil
}
