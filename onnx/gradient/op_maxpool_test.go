package gradient

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jempipe/jempipe/internal/runtimetest"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// distinctPlaces draws multiples of 1/4 of which no two of a hundred in a row are equal, so that no step of the numeric
// Jacobian changes the largest place.
func distinctPlaces() func(*rand.Rand) float64 {
	i := 0
	return func(*rand.Rand) float64 {
		i++
		return float64(i*37%101)/4 - 12
	}
}

func TestMaxPool(t *testing.T) {
	for _, k := range []struct{ size, kernel, stride, pad int64 }{
		{6, 2, 2, 0}, {7, 2, 2, 0}, {6, 3, 3, 0}, {6, 3, 2, 1}, {5, 3, 1, 1}, {5, 2, 3, 0}, {7, 2, 3, 1}, {4, 4, 1, 0},
	} {
		for _, ceil := range []int64{0, 1} {
			for _, single := range []bool{false, true} {
				if ceil == 1 && k.stride == 1 {
					continue
				}
				checkJacobian(t, jacobianCase{op: "MaxPool", single: single, draw: distinctPlaces(),
					name: fmt.Sprint(k, ceil, single), shapes: [][]int64{{2, 2, k.size, 4}},
					attrs: nodeAttrs(ir.Ints("kernel_shape", k.kernel, 2), ir.Ints("strides", k.stride, 2), ir.Ints("pads", k.pad, 0, 0, 0), ir.Int("ceil_mode", ceil))})
			}
		}
	}
}

func TestMaxPoolForms(t *testing.T) {
	pair := ir.Ints("kernel_shape", 2, 2)
	checks := func(name string, opset int64, shape []int64, attrs ...*onnxpb.AttributeProto) {
		checkJacobian(t, jacobianCase{op: "MaxPool", name: name, opset: opset, single: true, static: opset < 13, shapes: [][]int64{shape}, attrs: attrs, draw: distinctPlaces()})
	}
	for _, opset := range []int64{9, 10, 11, 12, 13, 23} {
		checks(fmt.Sprint("opset ", opset), opset, []int64{2, 1, 4, 4}, pair, ir.Ints("strides", 2, 2))
		checks(fmt.Sprint("gaps, opset ", opset), opset, []int64{2, 1, 5, 4}, pair, ir.Ints("strides", 3, 2))
	}
	checks("overlap, new", 23, []int64{2, 1, 4, 4}, pair)
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID"} {
		checks(mode, 17, []int64{1, 2, 5, 5}, ir.Ints("kernel_shape", 3, 2), ir.Ints("strides", 2, 2), ir.String("auto_pad", mode))
	}
	checks("dilated", 17, []int64{1, 2, 6, 5}, pair, ir.Ints("dilations", 2, 3))
	checks("columns first", 17, []int64{1, 2, 5, 4}, pair, ir.Int("storage_order", 1))
	checks("one axis", 17, []int64{2, 2, 7}, ir.Ints("kernel_shape", 3), ir.Ints("strides", 2), ir.Ints("pads", 1, 1))
	checks("one axis, tiles", 17, []int64{2, 2, 6}, ir.Ints("kernel_shape", 3), ir.Ints("strides", 3))
	checks("three axes", 17, []int64{1, 2, 3, 3, 4}, ir.Ints("kernel_shape", 2, 2, 3), ir.Ints("strides", 1, 2, 1))
	checks("three axes, tiles", 17, []int64{1, 2, 2, 4, 2}, ir.Ints("kernel_shape", 2, 2, 1), ir.Ints("strides", 2, 2, 1))
	for _, single := range []bool{false, true} {
		for _, stride := range []int64{1, 2, 3} {
			checkJacobian(t, jacobianCase{op: "MaxPool", name: "free batch", single: single, static: true, shapes: [][]int64{{2, 2, 4, 4}}, dims: [][]int64{{-1, 2, 4, 4}},
				draw: distinctPlaces(), attrs: nodeAttrs(pair, ir.Ints("strides", stride, 2))})
		}
	}
	for _, order := range []int64{0, 1} {
		checkJacobian(t, jacobianCase{op: "MaxPool", name: fmt.Sprint("with indices ", order), shapes: [][]int64{{2, 2, 5, 4}}, draw: distinctPlaces(),
			build: func(g *ir.Graph, args []string) {
				g.AddNamed("the_node", "MaxPool", args, []string{"y", "indices"}, pair, ir.Int("storage_order", order))
			}})
	}
}

// With ties the gradient is one of the subgradients: it sums to dy in each window.
func TestMaxPoolTies(t *testing.T) {
	for _, stride := range []int64{1, 2} {
		m := ir.NewModel("ties", 8, 17)
		g, err := ir.NewGraph(m)
		must(t, err)
		must(t, g.Input("in_x0", ir.Float32, ir.FixedDims(1, 1, 2, 4)...))
		g.AddNamed("the_node", "MaxPool", []string{"in_x0"}, []string{"y"}, ir.Ints("kernel_shape", 2, 2), ir.Ints("strides", stride, stride))
		grads, err := Gradient(m, "y", []string{"in_x0"})
		must(t, err)
		g, err = ir.NewGraph(m)
		must(t, err)
		g.Output(grads[0], ir.Float32, ir.FixedDims(1, 1, 2, 4)...)
		r := runtimetest.Open(t)
		s := session(t, r, m)
		for _, x := range [][]float32{{0, 0, 0, 0, 0, 0, 0, 0}, {1, 2, 2, 2, 2, 1, 1, 2}} {
			got := runFirst(t, s, []int64{1, 1, 2, 4}, x)
			sum := float32(0)
			for _, v := range got {
				sum += v
			}
			if want := float32(map[int64]int{1: 3, 2: 2}[stride]); sum != want {
				t.Errorf("stride %d, x %v: gradient %v sums to %v, want %v", stride, x, got, sum, want)
			}
		}
	}
}

// runFirst runs a model of one input and gives its only output.
func runFirst(t *testing.T, s *ort.Session, shape []int64, x []float32) []float32 {
	t.Helper()
	in, err := ort.Float32(shape, x)
	must(t, err)
	defer in.Close()
	out := []*ort.Tensor{nil}
	must(t, s.Run(context.Background(), []*ort.Tensor{in}, out))
	defer out[0].Close()
	return append([]float32{}, out[0].Data()...)
}
