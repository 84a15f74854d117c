package gradient

import "testing"

func TestMul(t *testing.T) { checkPairings(t, "Mul") }
