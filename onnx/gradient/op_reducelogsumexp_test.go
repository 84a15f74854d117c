package gradient

import "testing"

func TestReduceLogSumExp(t *testing.T) { checkReduction(t, "ReduceLogSumExp", nil) }
