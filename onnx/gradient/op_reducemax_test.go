package gradient

import "testing"

func TestReduceMax(t *testing.T) { checkReduction(t, "ReduceMax", scattered()) }
