//go:build !linux

package outputs

import "errors"

func exchange(a, b string) error { return errors.ErrUnsupported }
