package gradient

import "testing"

func TestCumProd(t *testing.T) {
	checkCumulative(t, "CumProd", 26, someZeros)
}
