package gradient

// normalisations bring groups of elements to a common mean or size.
func normalisations() Registry {
	return Registry{}
}
