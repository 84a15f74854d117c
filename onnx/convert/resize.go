package convert

import (
	"errors"
	"slices"

	"github.com/jempipe/jempipe/onnx/ir"
	"github.com/jempipe/jempipe/onnx/ir/onnxpb"
)

// upsample9 makes the attribute scales an input.
func upsample9(s *step) error {
	a, err := s.need("scales")
	if err != nil {
		return err
	}
	scales := a[0].GetFloats()
	name, err := s.constant(ir.Float32Tensor("scales", []int64{int64(len(scales))}, scales))
	s.setInput(1, name)
	return err
}

// resize11 states how coordinates were made before they could be chosen: y[i] = x[i / scale], where the nearest value
// is the one below along an axis that grows and the one above along an axis that shrinks. Where both can be, or the
// scales are not known, two nodes do one each: the axes are independent.
func resize11(s *step) error {
	nearest := ir.AttrString(s.n, "mode", "nearest") == "nearest"
	s.set(ir.String("coordinate_transformation_mode", "asymmetric"))
	scales := s.input(1)
	known, ok := s.floats(scales)
	grows := !ok || slices.ContainsFunc(known, func(v float64) bool { return v > 1 })
	shrinks := !ok || slices.ContainsFunc(known, func(v float64) bool { return v < 1 })
	roi, err := s.constant(&onnxpb.TensorProto{Name: "roi", DataType: ir.Float32, Dims: []int64{0}})
	if err != nil {
		return err
	}
	s.n.Input = []string{s.n.Input[0], roi, scales}
	if !nearest {
		return nil
	}
	if !grows || !shrinks {
		mode := "floor"
		if shrinks {
			mode = "ceil"
		}
		s.set(ir.String("nearest_mode", mode))
		return nil
	}
	one, err := s.constant(ir.Float32Tensor("one", nil, []float32{1}))
	if err != nil {
		return err
	}
	up, down := s.add("Max", []string{scales, one}), s.add("Min", []string{scales, one})
	grown := s.add("Resize", []string{s.n.Input[0], roi, up}, ir.String("mode", "nearest"),
		ir.String("coordinate_transformation_mode", "asymmetric"), ir.String("nearest_mode", "floor"))
	s.n.Input = []string{grown, roi, down}
	s.set(ir.String("nearest_mode", "ceil"))
	return nil
}

// resize13 leaves out the scales where there are sizes: before, something empty had to stand there. A way of making
// coordinates that is gone is refused.
func resize13(s *step) error {
	if ir.AttrString(s.n, "coordinate_transformation_mode", "") == "tf_half_pixel_for_nn" {
		return errors.New("coordinate_transformation_mode is tf_half_pixel_for_nn, which operator set 13 no longer has: export the model with half_pixel or asymmetric")
	}
	if s.input(3) != "" {
		s.n.Input[2] = ""
	}
	return nil
}
