package gradient

import (
	"errors"

	"github.com/jempipe/jempipe/onnx/ir"
)

// dropoutGradient: outside training y = x, so x gets dy. The second output, the mask, does not depend on x.
func dropoutGradient(c *Context) error {
	training, ratio := c.In(2), c.In(1)
	mode, known := c.number(training)
	off, given := c.number(ratio)
	if training != "" && !(known && mode == 0) && !(given && off == 0) {
		return errors.New("its output is random unless its input training_mode is a constant false: export the model in inference mode")
	}
	if c.HasGrad(0) {
		c.passSame(1)
	}
	return nil
}

// inferDropout: the mask is of type bool since operator set 10.
func inferDropout(s *Site) []Type {
	y, mask := s.Type(0), s.Type(0)
	if s.opset >= 10 {
		mask.Elem = ir.Bool
	}
	return []Type{y, mask}
}
