package gradient

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/internal/keyed"
	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
	ort "github.com/jempipe/jempipe/onnx/runtime"
)

// precision says how finely a type is differenced and compared. Inputs are moved by each of the steps in turn, as
// rounding forbids small ones and bends large ones.
type precision struct {
	steps    []float64
	tol      float64
	rounding float64 // of one output, relative
}

var precisions = map[int32]precision{
	ir.Float64: {[]float64{0x1p-12, 0x1p-16, 0x1p-8}, 1e-5, 1e-14},
	ir.Float32: {[]float64{0x1p-6, 0x1p-4, 0x1p-8}, 1e-2, 4e-7},
}

// agreement is what two gradients in different types may differ by, relative to the largest element: a few hundred
// units of the coarser type, for sums of rounded terms.
var agreement = map[int32]float64{ir.Float64: 1e-5, ir.Float32: 1e-4, elemHalf: 3e-2, elemBrain: 1e-1}

// tries are points, one after the other, until numeric and analytic gradients agree: the test's inputs times a scale,
// moved by at most offset, and with numbers in place of infinities and NaN where they are ordinary. The tests like values
// at which operators have kinks (0, ties, the borders of ranges), and a move away from there can leave the domain; near
// its end, functions such as acos bend too much. A wrong gradient is wrong at all of them.
var tries = []struct {
	scale, offset float64
	ordinary      bool
}{{1, 0.05, false}, {1, 0.05, true}, {1, 0.05, true}, {1, 0.005, false}, {1, 0, false}, {0.875, 0.005, false}}

// compare checks the gradient of a test. p is its path.
// It gives the floating-point type in which the numeric derivatives were taken.
func (b *backendTest) compare(r *ort.Runtime, rules Registry, p floatPath) (elem int32, err error) {
	m, err := b.reference(r, rules, p)
	if err != nil {
		return 0, err
	}
	defer m.close()
	for try := range tries {
		var x, grads [][]float32
		if x, err = b.point(p, try); err != nil {
			return m.elem, err
		}
		if grads, err = b.difference(m, p, x, try); err == nil {
			return m.elem, b.asItIs(r, rules, p, m.elem, x, grads)
		}
		err = fmt.Errorf("at the inputs times %v, moved by %v: %w", tries[try].scale, tries[try].offset, err)
	}
	return m.elem, err
}

// point moves the test's inputs by ±[0.5, 1] of the try's offset. Where the test has 16-bit floats, values are rounded
// so that every type of the test holds them.
func (b *backendTest) point(p floatPath, try int) ([][]float32, error) {
	rng := keyed.New(2, b.name).At(0, uint64(try))
	small := b.uses(elemHalf) || b.uses(elemBrain)
	var x [][]float32
	for _, i := range p.inputs {
		values, err := floatValues(b.inputs[i])
		if err != nil {
			return nil, err
		}
		for j := range values {
			if tries[try].ordinary && (math.IsNaN(values[j]) || math.IsInf(values[j], 0)) {
				values[j] = rng.Float64()
			}
			by := tries[try].offset * (0.5 + 0.5*rng.Float64())
			if rng.IntN(2) == 0 {
				by = -by
			}
			values[j] = values[j]*tries[try].scale + by
		}
		list := narrow(values)
		for j, v := range list {
			if small { // bfloat16 has the fewest digits
				list[j] = math.Float32frombits((math.Float32bits(v) + 0x8000) &^ 0xffff)
			}
		}
		x = append(x, list)
	}
	return x, nil
}

// uses says whether a float input or output, or what a node is told to produce, has an element type.
func (b *backendTest) uses(elem int32) bool {
	for _, t := range slices.Concat(b.inputs, b.outputs) {
		if t.GetDataType() == elem {
			return true
		}
	}
	return slices.ContainsFunc(b.model.Graph.Node, func(n *onnxpb.NodeProto) bool {
		return n.OpType == "Cast" && ir.AttrInt(n, "to", 0) == int64(elem)
	})
}

// move is a direction: one element of one input, or random signs for all of them.
type move struct {
	input, element int
	signs          [][]float32
}

// moves are all elements where they are few, else some at random, and some directions that move all.
func (b *backendTest) moves(x [][]float32, try int) []move {
	most, dense := 24, 3
	rng := keyed.New(3, b.name).At(0, uint64(try))
	var out []move
	for i, values := range x {
		for j, v := range values {
			if !finite(v) {
				continue
			}
			out = append(out, move{input: i, element: j})
		}
	}
	if len(out) > 10000 { // which take long
		most = 6
	}
	if len(out) > most {
		rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		out = out[:most]
	}
	for range dense {
		m := move{signs: make([][]float32, len(x))}
		for i, values := range x {
			m.signs[i] = make([]float32, len(values))
			for j, v := range values {
				if finite(v) {
					m.signs[i][j] = float32(2*rng.IntN(2) - 1)
				}
			}
		}
		out = append(out, m)
	}
	return out
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// by gives x moved by h times the direction.
func (d move) by(x [][]float32, h float32) [][]float32 {
	out := slices.Clone(x)
	if d.signs == nil {
		out[d.input] = slices.Clone(x[d.input])
		out[d.input][d.element] += h
		return out
	}
	for i := range out {
		out[i] = slices.Clone(x[i])
		for j, s := range d.signs[i] {
			if s != 0 {
				out[i][j] += h * s
			}
		}
	}
	return out
}

func (d move) String() string {
	if d.signs == nil {
		return fmt.Sprintf("input %d, element %d", d.input, d.element)
	}
	return "all elements"
}

// difference compares the gradient at x with central differences, and gives it.
func (b *backendTest) difference(m *backendModel, p floatPath, x [][]float32, try int) ([][]float32, error) {
	_, grads, err := m.at(x)
	if err != nil {
		return nil, err
	}
	most := largest(grads, x)
	if math.IsNaN(most) || math.IsInf(most, 0) {
		return nil, fmt.Errorf("the gradient is not finite")
	}
	size := b.magnitude(p)
	for _, d := range b.moves(x, try) {
		if err := m.along(d, x, grads, most, size); err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
	}
	return grads, nil
}

// along compares along one direction; the step that fits best counts. most is the largest element of the gradient,
// size the magnitude of the loss's terms.
func (m *backendModel) along(d move, x, grads [][]float32, most, size float64) error {
	prec, ok := precisions[m.elem]
	if !ok {
		prec = precisions[ir.Float32]
	}
	var last error
	for _, h := range prec.steps {
		up, down := d.by(x, float32(h)), d.by(x, -float32(h))
		high, _, err := m.at(up)
		if err != nil {
			last = err
			continue
		}
		low, _, err := m.at(down)
		if err != nil {
			last = err
			continue
		}
		got, square := 0.0, 0.0
		for i := range up {
			for j := range up[i] {
				if dx := float64(up[i][j]) - float64(down[i][j]); dx != 0 && !math.IsNaN(dx) {
					got += float64(grads[i][j]) * dx
					square += dx * dx
				}
			}
		}
		want := high - low
		limit := prec.tol*(math.Abs(want)+0.1*most*math.Sqrt(square)) + prec.rounding*size
		if math.Abs(got-want) <= limit {
			return nil
		}
		last = fmt.Errorf("gradient %.9g, numeric %.9g", got/(2*h), want/(2*h))
	}
	return last
}

// largest is the largest element of the gradient with respect to finite inputs.
func largest(grads, x [][]float32) float64 {
	most := 0.0
	for i, g := range grads {
		for j, v := range g {
			if finite(x[i][j]) {
				most = max(most, math.Abs(float64(v))) // NaN stays
			}
		}
	}
	return most
}

// magnitude is the root of the sum of squares of the loss's terms, as the test expects them.
func (b *backendTest) magnitude(p floatPath) float64 {
	square := 0.0
	for i, r := range b.weights(p) {
		values, err := floatValues(b.outputs[p.outputs[i]])
		if err != nil {
			continue
		}
		for j, v := range values {
			if t := v * r[j]; !math.IsNaN(t) && !math.IsInf(t, 0) {
				square += t * t
			}
		}
	}
	return math.Sqrt(square)
}

// asItIs compares the gradient of the test in its own types with the one of the reference, where they are others and
// ONNX Runtime takes the test.
func (b *backendTest) asItIs(r *ort.Runtime, rules Registry, p floatPath, elem int32, x, want [][]float32) error {
	tol := 0.0
	for _, e := range []int32{ir.Float64, ir.Float32, elemHalf, elemBrain} {
		if e != elem && elem != 0 && b.uses(e) {
			tol = max(tol, agreement[e])
		}
	}
	if tol == 0 {
		return nil
	}
	m, err := b.open(r, rules, p, 0)
	if errors.Is(err, errForward) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("in its own types: %w", err)
	}
	defer m.close()
	_, got, err := m.at(x)
	if err != nil {
		return fmt.Errorf("in its own types: %w", err)
	}
	// Where elements are small next to the loss, they are differences of large terms.
	most := max(largest(want, x), b.magnitude(p)/16)
	for i := range want {
		for j := range want[i] {
			d := math.Abs(float64(got[i][j]) - float64(want[i][j]))
			if finite(x[i][j]) && !(d <= tol*most) {
				return fmt.Errorf("in its own types: input %d, element %d: gradient %v, %v in the reference", i, j, got[i][j], want[i][j])
			}
		}
	}
	return nil
}
