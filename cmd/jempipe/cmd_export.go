package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/onnx/intake"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/lower"
	ort "github.com/jempipe/jempipe/onnx/runtime"
	"github.com/jempipe/jempipe/outputs"
)

func (a *app) exportCommand() *cli.Command {
	return &cli.Command{
		Name:  "export",
		Usage: "write ONNX files made from a model",
		Action: func(c *cli.Context) error {
			return fault.New(fault.Usage, "", "export wants to be told what").Do("see jempipe export gradient --help")
		},
		Subcommands: []*cli.Command{a.exportGradientCommand()},
	}
}

func (a *app) exportGradientCommand() *cli.Command {
	return &cli.Command{
		Name:      "gradient",
		Usage:     "write a copy of a classifier that gives a gradient too",
		ArgsUsage: "MODEL.onnx",
		Description: `The copy has the inputs and outputs of the model, and one output more, which any
ONNX Runtime computes: the gradient of what --of names, a row for each sample.
  energy      output score: the gradient of log p(x) = logsumexp f(x) = -E(x)
  logit:K     output gradient: that of the logit of class K, counted from 0
  logprob:K   of log p(K|x)       loss:K   of -log p(K|x)
  confidence  of the largest softmax probability
A final Softmax, LogSoftmax or Sigmoid is taken off to find the logits. The gradient
is tested against central differences on a random probe before it is written.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "o", Aliases: []string{"out"}, Usage: "file to write (required)"},
			&cli.StringFlag{Name: "of", Value: "energy", Usage: "energy, logit:K, logprob:K, loss:K or confidence"},
			&cli.StringFlag{Name: "wrt", Usage: "input, or constant such as a weight, to differentiate with respect to (default: the input)"},
			&cli.StringFlag{Name: "output", Usage: "value with the logits (default: found)"},
			&cli.StringFlag{Name: "output-kind", Value: intake.Auto, Usage: "what it holds: auto, logits or probabilities"},
			&cli.StringFlag{Name: "shape", Usage: "shape of a sample, such as 3,32,32, where the model leaves it open"},
			&cli.BoolFlag{Name: "free-batch", Usage: "free a batch size that the model has built in"},
			onnxruntimeFlag(),
		},
		Action: stoppable(a.exportGradient),
	}
}

func (a *app) exportGradient(c *cli.Context) error {
	path, err := oneFile(c, "")
	if err != nil {
		return err
	}
	to := c.String("o")
	if to == "" {
		return fault.New(fault.Usage, "", "no file to write").Do("give one with -o, such as -o score.onnx")
	}
	if same(path, to) {
		return fault.New(fault.Usage, to, "is the model itself").Do("write to another file")
	}
	of, err := lower.ParseReadout(c.String("of"))
	if err != nil {
		return fault.New(fault.Usage, "", "--of: %v", err)
	}
	cfg := intake.Config{Output: c.String("output"), Kind: c.String("output-kind")}
	switch cfg.Kind {
	case intake.Auto, intake.Logits, intake.Probabilities:
	default:
		return fault.New(fault.Usage, "", "--output-kind %q: want auto, logits or probabilities", cfg.Kind)
	}
	if cfg.Preprocess.SampleShape, err = parseShape(c.String("shape")); err != nil {
		return err
	}
	rt, err := ort.Open(ort.Config{Provider: "cpu", Library: c.String("onnxruntime")}, nil)
	if err != nil {
		return err
	}
	defer rt.Close()
	d, err := intake.Differentiate(c.Context, rt, path, cfg, intake.Wanted{Of: of, Wrt: c.String("wrt"), FreeBatch: c.Bool("free-batch"), Rows: 8, Seed: 1})
	if err != nil {
		return err
	}
	d.Model.ProducerName, d.Model.ProducerVersion = lower.Producer, version
	data, err := ir.Marshal(d.Model)
	if err != nil {
		return fault.New(fault.Data, path, "%v", err)
	}
	if err := outputs.WriteFileAtomic(to, data); err != nil {
		return err
	}
	a.tellDerived(to, of, d)
	return nil
}

// tellDerived says on stdout what was written and what the self-test measured.
func (a *app) tellDerived(to string, of lower.Readout, d *intake.Derived) {
	fmt.Fprintf(a.stdout, "%s: output %s is the gradient of %s; logits are %s, %d classes\n", to, d.Output, of, d.Classifier.From, d.Classifier.Classes)
	if now := ir.Opset(d.Model); now > d.Opset {
		fmt.Fprintf(a.stdout, "raised from operator set %d to %d, which the gradient needs\n", d.Opset, now)
	}
	for _, note := range d.Notes {
		fmt.Fprintln(a.stdout, note)
	}
	r := d.Report
	if r == nil {
		return
	}
	if r.Coordinates > 0 {
		fmt.Fprintf(a.stdout, "tested: %d partial derivatives on %d samples agree with central differences (median difference %.2g of the largest), alone and in a batch (%.2g)\n",
			r.Coordinates, r.Rows, r.Median, r.Alone)
	}
	if r.Note != "" {
		fmt.Fprintln(a.stdout, r.Note)
	}
}

// same says whether two paths are one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func parseShape(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var shape []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > 1<<20 {
			return nil, fault.New(fault.Usage, "", "--shape %q: want numbers with commas, such as 3,32,32", text)
		}
		shape = append(shape, n)
	}
	return shape, nil
}
