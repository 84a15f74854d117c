package gradient

import "testing"

func TestReduceSumSquare(t *testing.T) { checkReduction(t, "ReduceSumSquare", nil) }
