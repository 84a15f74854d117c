package gradient

import (
	"math"

	"github.com/jempipe/jempipe/onnx/ir"
)

// interpolation is how Resize and Upsample compute an element of y from x along an axis. Coordinates are computed in
// float32, as ONNX Runtime does, so that ties and borders fall on the same elements.
type interpolation struct {
	mode        string
	coordinates string
	nearest     string
	cubic       float64 // the coefficient a of cubic interpolation
	exclude     bool    // elements outside x have no weight
}

// resampling is the resizing of one axis.
type resampling struct {
	in, out int64 // sizes; meaningful where sized is set
	sized   bool
	scale   float32 // 1: the axis stays as it is; 0: not known

	start, end float32 // part of the axis that is cropped, from 0 to 1, for coordinates "tf_crop_and_resize"
}

// crop are the coordinates for which elements of y outside x are constant.
const crop = "tf_crop_and_resize"

func (s *Site) interpolation() interpolation {
	p := interpolation{
		mode:        ir.AttrString(s.Node, "mode", "nearest"),
		coordinates: ir.AttrString(s.Node, "coordinate_transformation_mode", "half_pixel"),
		nearest:     ir.AttrString(s.Node, "nearest_mode", "round_prefer_floor"),
		cubic:       float64(ir.AttrFloat(s.Node, "cubic_coeff_a", -0.75)),
		exclude:     ir.AttrInt(s.Node, "exclude_outside", 0) != 0,
	}
	if s.Node.OpType == "Upsample" || s.opset < 11 {
		p.coordinates, p.nearest = "asymmetric", "simple"
	}
	if p.mode == "bilinear" {
		p.mode = "linear"
	}
	return p
}

// at is the coordinate in x of an element of y.
func (p interpolation) at(place int64, r resampling) float32 {
	y := float32(place)
	half := (y+0.5)/r.scale - 0.5
	switch p.coordinates {
	case "asymmetric":
		return y / r.scale
	case "tf_half_pixel_for_nn":
		return (y + 0.5) / r.scale
	case crop:
		if r.out == 1 {
			return float32(0.5 * float64(r.start+r.end) * float64(r.in-1))
		}
		return float32(r.start*float32(r.in-1)) + float32(y*(r.end-r.start)*float32(r.in-1))/float32(r.out-1)
	case "align_corners":
		if r.out == 1 {
			return 0
		}
		return y * float32(r.in-1) / float32(r.out-1)
	case "pytorch_half_pixel":
		if r.out == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		adjustment := float32(r.out) / float32(r.scale*float32(r.in))
		offset := float32(r.in) / 2 * (1 - adjustment)
		return float32(float64(offset) + (float64(y)+0.5)/float64(r.scale) - 0.5) // only this one goes by way of float64
	}
	return half
}

// indices gives, for each element of y, the element of x that it is a copy of, in mode nearest.
func (p interpolation) indices(r resampling) []int64 {
	out := make([]int64, r.out)
	for i := range out {
		out[i] = p.pick(float64(p.at(int64(i), r)), r)
	}
	return out
}

func (p interpolation) pick(at float64, r resampling) int64 {
	k := math.Round(at)
	switch {
	case p.nearest == "ceil", p.nearest == "simple" && r.scale < 1:
		k = math.Ceil(at)
	case p.nearest == "floor", p.nearest == "simple", p.nearest == "round_prefer_floor" && at == math.Floor(at)+0.5:
		k = math.Floor(at)
	}
	return min(max(int64(k), 0), r.in-1)
}

// rows gives, for each element of y, the weights of the elements of x.
func (p interpolation) rows(r resampling) [][]float64 {
	out := make([][]float64, r.out)
	for i := range out {
		out[i] = make([]float64, r.in)
		at := float64(p.at(int64(i), r))
		switch {
		case p.coordinates == crop && (at < 0 || at > float64(r.in-1)): // a constant
		case p.mode == "nearest":
			out[i][p.pick(at, r)] = 1
		case p.mode == "linear":
			at = min(max(at, 0), float64(r.in-1))
			low := int64(at)
			out[i][low] += 1 - (at - float64(low))
			out[i][min(low+1, r.in-1)] += at - float64(low)
		default:
			p.cubicRow(out[i], at)
		}
	}
	return out
}

// cubicRow weights the four neighbours of a coordinate by the convolution kernel of Keys (1981), equation (4) with the
// free constant a. Neighbours outside x count as the element at its border, or not at all.
func (p interpolation) cubicRow(row []float64, at float64) {
	base := math.Floor(at)
	total := 0.0
	for k := -1; k <= 2; k++ {
		d := math.Abs(at - base - float64(k))
		w := ((p.cubic+2)*d-(p.cubic+3))*d*d + 1
		if d > 1 {
			w = ((p.cubic*d-5*p.cubic)*d+8*p.cubic)*d - 4*p.cubic
		}
		place := int(base) + k
		if p.exclude && (place < 0 || place >= len(row)) {
			continue
		}
		total += w
		row[min(max(place, 0), len(row)-1)] += w
	}
	if p.exclude {
		for i := range row {
			row[i] /= total
		}
	}
}

// repeats says whether resizing an axis in mode nearest is to repeat each element the same number of times.
func (p interpolation) repeats(r resampling) (times int64, ok bool) {
	times = int64(r.scale)
	if r.scale < 1 || float32(times) != r.scale || times > maxIndices {
		return 0, false
	}
	if !r.sized {
		// In these modes all groups of `times` elements are alike, so that a few stand for any number.
		if p.coordinates != "asymmetric" && p.coordinates != "half_pixel" && p.coordinates != "pytorch_half_pixel" {
			return 0, false
		}
		r.in, r.out = 4, 4*times
	}
	if r.out != r.in*times {
		return 0, false
	}
	for i, from := range p.indices(r) {
		if from != int64(i)/times {
			return 0, false
		}
	}
	return times, true
}
