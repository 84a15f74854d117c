package langevin

import "fmt"

// NonFinite is the error of a chain that met a log density, gradient or state that is not a finite number: the model has
// diverged there.
type NonFinite struct {
	What        string // "log density", "gradient" or "state"
	Chain, Step int
	Value       float64
}

func (e *NonFinite) Error() string {
	return fmt.Sprintf("langevin: %s of chain %d is %v at step %d: the model has diverged", e.What, e.Chain, e.Value, e.Step)
}
