package gradient

import "testing"

func TestReduceSum(t *testing.T) { checkReduction(t, "ReduceSum", nil) }
