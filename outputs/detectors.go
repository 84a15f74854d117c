package outputs

// Values of the column role.
const (
	RoleID  = "id"  // in distribution
	RoleOOD = "ood" // out of distribution
)

// OOD is the place of the column ood_NAME; nil for a detector that has no column.
func (p *Prediction[ID]) OOD(detector string) **float64 {
	switch detector {
	case "msp":
		return &p.OODMSP
	case "max_logit":
		return &p.OODMaxLogit
	case "energy":
		return &p.OODEnergy
	case "entropy":
		return &p.OODEntropy
	case "margin":
		return &p.OODMargin
	case "approximate_mass":
		return &p.OODApproximateMass
	}
	return nil
}

// Flag is the place of the column flag_NAME; nil for a detector that has no column.
func (p *Prediction[ID]) Flag(detector string) **bool {
	switch detector {
	case "msp":
		return &p.FlagMSP
	case "max_logit":
		return &p.FlagMaxLogit
	case "energy":
		return &p.FlagEnergy
	case "entropy":
		return &p.FlagEntropy
	case "margin":
		return &p.FlagMargin
	case "approximate_mass":
		return &p.FlagApproximateMass
	}
	return nil
}
