package convert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jempipe/jempipe/onnx/ir"
)

// batchNormalization9 drops the attribute spatial, which can only be 1 now: one mean and variance a channel.
func batchNormalization9(s *step) error {
	if a := s.take("spatial"); a != nil && a.GetI() == 0 {
		return errors.New("attribute spatial is 0, statistics for every position, which later operator sets do not have: export the model with spatial 1")
	}
	return nil
}

// batchNormalization14 refuses the form for training, which more than one output stood for.
func batchNormalization14(s *step) error {
	if strings.Join(s.n.Output[1:], "") != "" {
		return errors.New("it has more outputs than one, which is the form for training: export the model for inference")
	}
	s.n.Output = s.n.Output[:1]
	return nil
}

// groupNormalization21 repeats scale and bias, which were one value a group, for every channel of a group.
func groupNormalization21(s *step) error {
	groups := ir.AttrInt(s.n, "num_groups", 0)
	if groups <= 0 {
		return fmt.Errorf("attribute num_groups is %d", groups)
	}
	if s.input(1) == "" || s.input(2) == "" {
		return errors.New("scale or bias is missing")
	}
	size, err := s.groupSize(groups)
	if err != nil {
		return err
	}
	last, err := s.list("axes", 1)
	if err != nil {
		return err
	}
	flat, err := s.list("shape", -1)
	if err != nil {
		return err
	}
	one, err := s.list("one", 1)
	if err != nil {
		return err
	}
	repeats := s.add("Concat", []string{one, size}, ir.Int("axis", 0))
	for i := 1; i <= 2; i++ {
		column := s.add("Unsqueeze", []string{s.n.Input[i], last})
		s.n.Input[i] = s.add("Reshape", []string{s.add("Tile", []string{column, repeats}), flat})
	}
	return nil
}

// groupSize gives the number of channels of a group, a list of one.
func (s *step) groupSize(groups int64) (string, error) {
	if shape, ranked := s.shape(s.n.Input[0]); ranked && len(shape) > 1 && shape[1].Set {
		if shape[1].Size%groups != 0 {
			return "", fmt.Errorf("%d channels in %d groups", shape[1].Size, groups)
		}
		return s.list("size", shape[1].Size/groups)
	}
	count, err := s.list("groups", groups)
	if err != nil {
		return "", err
	}
	channels := s.add("Shape", s.n.Input[:1:1], ir.Int("start", 1), ir.Int("end", 2))
	return s.add("Div", []string{channels, count}), nil
}
