package lower

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jempipe/jempipe/onnx/ir"
)

// Every pair of layouts: the graph, Map, and a rearrangement written out by channel, row and column.
func TestLayoutsOfInput(t *testing.T) {
	const c, h, w = 3, 2, 4
	place := map[string]func(ch, y, x int) int{
		"chw": func(ch, y, x int) int { return (ch*h+y)*w + x },
		"hwc": func(ch, y, x int) int { return (y*w+x)*c + ch },
	}
	shape := map[string][]int{"chw": {c, h, w}, "hwc": {h, w, c}}
	for _, raw := range []string{"chw", "hwc"} {
		for _, input := range []string{"chw", "hwc"} {
			for _, flat := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s to %s, flat %v", raw, input, flat), func(t *testing.T) {
					p := Preprocess{Scale: 2, Mean: []float64{1, 2, 3}, Std: []float64{1, 2, 4}, Layout: raw, SampleShape: shape[raw], InputLayout: input}
					in := shape[input]
					if flat {
						in = []int{c * h * w}
					}
					x, want := make([]float32, c*h*w), make([]float32, c*h*w)
					for ch := range c {
						for y := range h {
							for col := range w {
								v := float64(100*ch + 10*y + col)
								x[place[raw](ch, y, col)] = float32(v)
								want[place[input](ch, y, col)] = float32((2*v - p.Mean[ch]) / p.Std[ch])
							}
						}
					}
					if got := mapped(t, p, in, x); !slices.Equal(got, want) {
						t.Errorf("Map gives %v, want %v", got, want)
					}
					if got := inGraph(t, p, in, x); !slices.Equal(got, want) {
						t.Errorf("the graph gives %v, want %v", got, want)
					}
				})
			}
		}
	}
}

func mapped(t *testing.T, p Preprocess, input []int, x []float32) []float32 {
	t.Helper()
	from, scale, shift, err := p.Map(input)
	must(t, err)
	out := make([]float32, len(from))
	for i, at := range from {
		out[i] = float32(float64(x[at])*scale[i] + shift[i])
	}
	return out
}

func inGraph(t *testing.T, p Preprocess, input []int, x []float32) []float32 {
	t.Helper()
	g, err := ir.NewGraph(ir.NewModel("preprocess", IRVersion, Opset))
	must(t, err)
	must(t, g.Input(InputX, ir.Float32, rows(p.SampleShape)...))
	out, err := p.Add(g, InputX, input, ModelX)
	must(t, err)
	g.Output(out, ir.Float32, rows(input)...)
	must(t, ir.Check(g.Model))
	return run(t, load(t, g.Model), tensor(t, append([]int{1}, p.SampleShape...), x))[out]
}
