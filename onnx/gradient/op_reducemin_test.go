package gradient

import "testing"

func TestReduceMin(t *testing.T) { checkReduction(t, "ReduceMin", scattered()) }
