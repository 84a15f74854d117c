package model

import (
	"fmt"
	"slices"
	"strings"
)

// maxDepth bounds the nesting of residual blocks, so that a damaged file cannot exhaust the stack.
const maxDepth = 32

// placing puts layers in their places; seen are the full names so far.
type placing struct{ seen map[string]bool }

// layers places a list. prefix is the full name of the block around it with a dot, or empty.
func (p placing) layers(list []Layer, prefix string, in []int, depth int) (placed []Placed, out []int, err error) {
	if depth > maxDepth {
		return nil, nil, fmt.Errorf("layer %s: residual blocks lie more than %d deep", strings.TrimSuffix(prefix, "."), maxDepth)
	}
	for i, l := range list {
		at := Placed{Layer: l, Path: prefix + l.Name, In: in}
		if l.Name == "" || p.seen[at.Path] || strings.ContainsAny(l.Name, " /") {
			return nil, nil, fmt.Errorf("layer %d%s: name %q must be unique, not empty, without blanks or slashes", i, within(prefix), l.Name)
		}
		p.seen[at.Path] = true
		if l.Kind == Residual {
			err = p.residual(&at, depth)
		} else if at.Out, err = l.shape(in); err != nil {
			err = fmt.Errorf("layer %s: %w", at.Path, err)
		}
		if err != nil {
			return nil, nil, err
		}
		placed, in = append(placed, at), at.Out
	}
	return placed, in, nil
}

func within(prefix string) string {
	if prefix == "" {
		return ""
	}
	return " of " + strings.TrimSuffix(prefix, ".")
}

// residual places the two branches of a block, which must give the same shape.
func (p placing) residual(at *Placed, depth int) (err error) {
	if len(at.Layer.Body) == 0 {
		return fmt.Errorf("layer %s: residual: the body is empty", at.Path)
	}
	if at.Body, at.Out, err = p.layers(at.Layer.Body, at.Path+".", at.In, depth+1); err != nil {
		return err
	}
	var short []int
	if at.Shortcut, short, err = p.layers(at.Layer.Shortcut, at.Path+".", at.In, depth+1); err != nil {
		return err
	}
	if !slices.Equal(at.Out, short) {
		what, cure := "the shortcut", "make them equal"
		if len(at.Shortcut) == 0 {
			what, cure = "the block's input", "add a shortcut, such as a conv of kernel 1"
		}
		return fmt.Errorf("layer %s: residual: the body gives %v and %s has %v: %s", at.Path, at.Out, what, short, cure)
	}
	return nil
}

// shape is the shape of one sample after the layer.
func (l Layer) shape(in []int) ([]int, error) {
	switch l.Kind {
	case Conv:
		if l.Out < 1 {
			return nil, fmt.Errorf("conv: out %d must be at least 1", l.Out)
		}
		side, err := l.windows(in)
		return append([]int{l.Out}, side...), err
	case Pool:
		return l.poolShape(in)
	case Dense:
		if len(in) != 1 {
			return nil, fmt.Errorf("dense takes [D], got %v: put a flatten layer before it", in)
		}
		if l.Out < 1 {
			return nil, fmt.Errorf("dense: out %d must be at least 1", l.Out)
		}
		return []int{l.Out}, nil
	case Flatten:
		return []int{Size(in)}, nil
	case Act:
		if !slices.Contains(Activations, l.Func) {
			return nil, fmt.Errorf("activation %q is not one of %v", l.Func, Activations)
		}
		return in, nil
	case Norm:
		return in, l.checkNorm(in)
	}
	return nil, fmt.Errorf("layer kind %q is not one of %v", l.Kind, LayerKinds)
}

// windows gives the sides of what a convolution or pool makes of [C,H,W].
func (l Layer) windows(in []int) ([]int, error) {
	if len(in) != 3 {
		return nil, fmt.Errorf("%s takes [C,H,W], got %v", l.Kind, in)
	}
	if l.Kernel < 1 || l.Stride < 1 || l.Pad < 0 {
		return nil, fmt.Errorf("%s: kernel %d and stride %d must be at least 1 and pad %d at least 0", l.Kind, l.Kernel, l.Stride, l.Pad)
	}
	h, w := l.side(in[1]), l.side(in[2])
	if h < 1 || w < 1 {
		return nil, fmt.Errorf("%s: a kernel of %d with padding %d does not fit into %dx%d", l.Kind, l.Kernel, l.Pad, in[1], in[2])
	}
	return []int{h, w}, nil
}

func (l Layer) side(n int) int {
	if n+2*l.Pad < l.Kernel {
		return 0
	}
	return (n+2*l.Pad-l.Kernel)/l.Stride + 1
}

func (l Layer) poolShape(in []int) ([]int, error) {
	if !slices.Contains(Pools, l.Pool) {
		return nil, fmt.Errorf("pool %q is not one of %v", l.Pool, Pools)
	}
	if l.Pool == GlobalPool {
		if len(in) != 3 {
			return nil, fmt.Errorf("pool takes [C,H,W], got %v", in)
		}
		if l.Kernel != 0 || l.Stride != 0 || l.Pad != 0 {
			return nil, fmt.Errorf("pool global takes all positions: kernel %d, stride %d and pad %d must be absent", l.Kernel, l.Stride, l.Pad)
		}
		return []int{in[0], 1, 1}, nil
	}
	side, err := l.windows(in)
	if err == nil && 2*l.Pad > l.Kernel {
		err = fmt.Errorf("pool: pad %d is more than half of kernel %d, so that windows could lie outside", l.Pad, l.Kernel)
	}
	return append([]int{in[0]}, side...), err
}

func (l Layer) checkNorm(in []int) error {
	if !slices.Contains(Norms, l.Norm) {
		return fmt.Errorf("norm %q is not one of %v", l.Norm, Norms)
	}
	if l.Norm == BatchNorm {
		return nil
	}
	groups := l.NormGroups(in[0])
	if groups < 1 || in[0]%groups != 0 {
		return fmt.Errorf("norm group: groups %d must be at least 1 and divide the %d channels", groups, in[0])
	}
	if n := Size(in) / groups; n < 2 {
		return fmt.Errorf("norm %s: %v gives one value a mean, and a value less itself is 0: use fewer groups or another norm", l.Norm, in)
	}
	return nil
}
