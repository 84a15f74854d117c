package gradient

import "testing"

func TestReduceMean(t *testing.T) { checkReduction(t, "ReduceMean", nil) }
