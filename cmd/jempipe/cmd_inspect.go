package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/jempipe/jempipe/internal/fault"
	"github.com/jempipe/jempipe/model"
	"github.com/jempipe/jempipe/onnx/intake"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	"github.com/jempipe/jempipe/outputs"
)

func (a *app) inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "describe an .onnx, .safetensors or .parquet file",
		ArgsUsage: "FILE",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "rows", Value: 3, Usage: "rows of a Parquet file to show"}},
		Action: func(c *cli.Context) error {
			path, err := oneFile(c, "")
			if err != nil {
				return err
			}
			switch filepath.Ext(path) {
			case ".onnx":
				return inspectONNX(a.stdout, path)
			case ".safetensors":
				return inspectSafetensors(a.stdout, path)
			case ".parquet":
				return inspectParquet(a.stdout, path, c.Int("rows"))
			}
			return fault.New(fault.Usage, path, "the ending %q is not known", filepath.Ext(path)).Do("give an .onnx, .safetensors or .parquet file")
		},
	}
}

func inspectONNX(w io.Writer, path string) error {
	m, err := ir.LoadFile(path)
	if err != nil {
		return fault.New(fault.Data, path, "cannot be read as an ONNX model").Because(err)
	}
	g := m.GetGraph()
	fmt.Fprintf(w, "ONNX model, opset %d, IR version %d, made by %s %s\n", ir.Opset(m), m.GetIrVersion(), m.GetProducerName(), m.GetProducerVersion())
	initial := map[string]bool{}
	for _, t := range g.GetInitializer() {
		initial[t.GetName()] = true
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range g.GetInput() {
		if !initial[v.GetName()] {
			fmt.Fprintf(tw, "input\t%s\t%s\n", v.GetName(), valueType(v))
		}
	}
	for _, v := range g.GetOutput() {
		fmt.Fprintf(tw, "output\t%s\t%s\n", v.GetName(), valueType(v))
	}
	ops := map[string]int{}
	for _, n := range g.GetNode() {
		op := n.GetOpType()
		if !ir.IsStandard(n.GetDomain()) {
			op = n.GetDomain() + "." + op
		}
		ops[op]++
	}
	var list []string
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		list = append(list, fmt.Sprintf("%s x%d", op, ops[op]))
	}
	fmt.Fprintf(tw, "operators\t%d\t%s\n", len(g.GetNode()), strings.Join(list, ", "))
	params := int64(0)
	for _, t := range g.GetInitializer() {
		n := int64(1)
		for _, d := range t.GetDims() {
			n *= d
		}
		params += n
	}
	fmt.Fprintf(tw, "initializers\t%d\t%d values\n", len(g.GetInitializer()), params)
	inspectClassifier(tw, path)
	for _, kv := range m.GetMetadataProps() {
		fmt.Fprintf(tw, "metadata\t%s\t%s\n", kv.GetKey(), kv.GetValue())
	}
	return tw.Flush()
}

// inspectClassifier says what the model stage would make of a model.
func inspectClassifier(w io.Writer, path string) {
	m, err := intake.Read(path)
	if err != nil {
		fmt.Fprintf(w, "usable\tno\t%v\n", err)
		return
	}
	d := intake.Describe(m)
	if d.Batch > 0 {
		fmt.Fprintf(w, "batch\t%d\tbuilt in\n", d.Batch)
	}
	if d.Unclear != nil {
		fmt.Fprintf(w, "logits\tunclear\t%v\n", d.Unclear)
		return
	}
	fmt.Fprintf(w, "logits\tfrom\t%s\n", d.From)
	if d.Features != "" {
		fmt.Fprintf(w, "features\tfrom\t%s\n", d.Features)
	}
	if len(d.Obstacles) == 0 {
		fmt.Fprintf(w, "gradient\tyes\tlogits with respect to %s\n", d.Input)
	}
	for _, err := range d.Obstacles {
		fmt.Fprintf(w, "gradient\tno\t%v\n", err)
	}
}

// valueType is a tensor's element type and shape, such as FLOAT [N, 8, 8].
func valueType(v *onnxpb.ValueInfoProto) string {
	t := v.GetType().GetTensorType()
	if t == nil {
		return "not a tensor"
	}
	var dims []string
	for _, d := range t.GetShape().GetDim() {
		switch {
		case d.GetDimParam() != "":
			dims = append(dims, d.GetDimParam())
		case d.GetValue() == nil:
			dims = append(dims, "?")
		default:
			dims = append(dims, fmt.Sprint(d.GetDimValue()))
		}
	}
	return fmt.Sprintf("%s [%s]", onnxpb.TensorProto_DataType(t.GetElemType()), strings.Join(dims, ", "))
}

func inspectSafetensors(w io.Writer, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fault.New(fault.Data, path, "cannot be read").Because(err)
	}
	params, meta, err := model.ReadSafetensors(data)
	if err != nil {
		return fault.New(fault.Data, path, "cannot be read as safetensors").Because(err)
	}
	fmt.Fprintf(w, "safetensors, %d tensors, %d values\n", len(params), params.Count())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, t := range params {
		fmt.Fprintf(tw, "tensor\t%s\t%v\n", t.Name, t.Shape)
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		fmt.Fprintf(tw, "metadata\t%s\t%s\n", key, meta[key])
	}
	return tw.Flush()
}

func inspectParquet(w io.Writer, path string, head int) error {
	info, err := outputs.Inspect(path, head)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Parquet, %d rows in %d row groups\n%s\n", info.Rows, info.RowGroups, info.Schema)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, kv := range info.Meta {
		fmt.Fprintf(tw, "metadata\t%s\t%s\n", kv.Key, kv.Value)
	}
	for i, row := range info.Head {
		for j, text := range row {
			fmt.Fprintf(tw, "row %d\t%s\t%s\n", i, info.Columns[j], text)
		}
	}
	return tw.Flush()
}
