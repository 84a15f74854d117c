package gradient

import "testing"

func TestReduceLogSum(t *testing.T) { checkReduction(t, "ReduceLogSum", positive) }
