package gradient

import "testing"

func TestReduceL1(t *testing.T) { checkReduction(t, "ReduceL1", nil) }
