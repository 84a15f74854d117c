package gradient

import "testing"

func TestDiv(t *testing.T) { checkPairings(t, "Div") }
