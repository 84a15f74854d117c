package convert

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
)

// axesInput makes the attribute axes an input. No axes, or an empty list, stay the default: all axes, or for Squeeze all
// of size 1.
func axesInput(s *step) error {
	a := s.take("axes")
	if a == nil && s.n.OpType == "Unsqueeze" {
		return errors.New("attribute axes is missing")
	}
	if len(a.GetInts()) == 0 && s.n.OpType != "Unsqueeze" {
		return nil
	}
	name, err := s.list("axes", a.GetInts()...)
	s.setInput(1, name)
	return err
}

// split13 makes the attribute split, the sizes of the parts, an input.
func split13(s *step) error {
	sizes := s.take("split").GetInts()
	if len(sizes) == 0 {
		return nil
	}
	name, err := s.list("split", sizes...)
	s.setInput(1, name)
	return err
}

// split18 states the number of equal parts, which followed from the number of outputs before.
func split18(s *step) error {
	if s.input(1) == "" {
		s.set(ir.Int("num_outputs", int64(len(s.n.Output))))
	}
	return nil
}

// slice10 makes the attributes starts, ends and axes inputs.
func slice10(s *step) error {
	given, err := s.need("starts", "ends")
	if err != nil {
		return err
	}
	starts, ends, axes := given[0].GetInts(), given[1].GetInts(), s.take("axes").GetInts()
	if len(starts) != len(ends) || len(axes) > 0 && len(axes) != len(starts) {
		return fmt.Errorf("starts %v, ends %v and axes %v differ in length", starts, ends, axes)
	}
	for i, v := range [][]int64{starts, ends, axes} {
		if i == 2 && len(v) == 0 {
			continue // the first axes
		}
		name, err := s.list([]string{"starts", "ends", "axes"}[i], v...)
		if err != nil {
			return err
		}
		s.setInput(i+1, name)
	}
	return nil
}

// topK10 makes the attribute k an input.
func topK10(s *step) error {
	k, err := s.need("k")
	if err != nil {
		return err
	}
	name, err := s.list("k", k[0].GetI())
	s.setInput(1, name)
	return err
}

// clip11 makes the attributes min and max inputs. The defaults were the range of float32, which is what clips nothing.
func clip11(s *step) error {
	for i, name := range []string{"min", "max"} {
		a := s.take(name)
		if a == nil || a.GetF() == [2]float32{-math.MaxFloat32, math.MaxFloat32}[i] {
			continue
		}
		bound, err := s.scalar(name, s.n.Input[0], float64(a.GetF()))
		if err != nil {
			return err
		}
		s.setInput(i+1, bound)
	}
	return nil
}

// pad11 makes the attributes pads and value inputs.
func pad11(s *step) error {
	pads, err := s.need("pads")
	if err != nil {
		return err
	}
	value := s.take("value").GetF()
	name, err := s.list("pads", pads[0].GetInts()...)
	if err != nil {
		return err
	}
	s.setInput(1, name)
	if value == 0 || ir.AttrString(s.n, "mode", "constant") != "constant" {
		return nil
	}
	name, err = s.scalar("value", s.n.Input[0], float64(value))
	s.setInput(2, name)
	return err
}

// rename gives an operator its later name.
func rename(to string) adapter {
	return func(s *step) error {
		s.n.OpType = to
		return nil
	}
}

// dropout10 drops the mask. Where it is used there is no way on: it was of the type of the data and is boolean now, and
// was all 0 in ONNX Runtime until operator set 12, where it became all 1.
func dropout10(s *step) error {
	if len(s.n.Output) < 2 {
		return nil
	}
	if s.uses[s.n.Output[1]] > 0 && s.n.Output[1] != "" {
		return fmt.Errorf("its output %q, the mask, is used, whose meaning changed: export the model for inference", s.n.Output[1])
	}
	s.n.Output = s.n.Output[:1]
	return nil
}

// dropout12 makes the attribute ratio an input. It says nothing in inference, which is what Dropout did before as well.
func dropout12(s *step) error {
	ratio := float32(0.5)
	if a := s.take("ratio"); a != nil {
		ratio = a.GetF()
	}
	name, err := s.constant(ir.Float32Tensor("ratio", nil, []float32{ratio}))
	s.setInput(1, name)
	if err != nil {
		return err
	}
	return dropout10(s)
}

// scan9 refuses Scan over batches, whose form is another one.
func scan9(*step) error {
	return errors.New("a Scan of operator set 8 goes over batches, which later ones cannot: export the model with operator set 9 or higher")
}

// roiAlign16 states where samples lie, which has another default now.
func roiAlign16(s *step) error {
	s.set(ir.String("coordinate_transformation_mode", "output_half_pixel"))
	return nil
}

// dft20 makes the attribute axis an input; the default was axis 1.
func dft20(s *step) error {
	axis := int64(1)
	if a := s.take("axis"); a != nil {
		axis = a.GetI()
	}
	t := ir.Int64Tensor("axis", axis)
	t.Dims = nil
	name, err := s.constant(t)
	s.setInput(2, name)
	return err
}

// gridSample20 gives the modes their later names.
func gridSample20(s *step) error {
	switch mode := ir.AttrString(s.n, "mode", "bilinear"); mode {
	case "bilinear":
		s.set(ir.String("mode", "linear"))
	case "bicubic":
		s.set(ir.String("mode", "cubic"))
	}
	return nil
}

// softmax13 turns an operator over the last axes, from axis on, taken together, into one over a single axis. Where these are
// not one axis the input is reshaped to two dimensions and back.
func softmax13(s *step) error {
	axis := int64(1)
	if a := s.take("axis"); a != nil {
		axis = a.GetI()
	}
	shape, ranked := s.shape(s.n.Input[0])
	rank := int64(len(shape))
	if ranked && axis < 0 {
		axis += rank
	}
	switch {
	case ranked && (axis < 0 || axis > rank):
		return fmt.Errorf("axis %d of an input with %d dimensions", axis, rank)
	case axis == -1:
		s.set(ir.Int("axis", -1))
		return nil
	case ranked && axis < rank && !slices.ContainsFunc(shape[axis+1:], func(d ir.Dim) bool { return !d.Is(1) }):
		s.set(ir.Int("axis", axis))
		return nil
	}
	dims := s.add("Shape", []string{s.n.Input[0]})
	s.n.Input[0] = s.add("Flatten", []string{s.n.Input[0]}, ir.Int("axis", axis))
	s.set(ir.Int("axis", -1))
	s.behind("Reshape", []string{dims})
	return nil
}
