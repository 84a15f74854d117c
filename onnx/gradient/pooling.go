package gradient

// pooling are the operators that combine the places of a moving window.
func pooling() Registry {
	return Registry{
		"AveragePool":       {Gradient: averagePoolGradient, Infer: inferPool},
		"GlobalAveragePool": {Gradient: globalAveragePoolGradient, Infer: inferGlobalPool},
		"GlobalLpPool":      {Gradient: globalLpPoolGradient, Infer: inferGlobalPool},
		"GlobalMaxPool":     {Gradient: globalMaxPoolGradient, Infer: inferGlobalPool},
		"LpPool":            {Gradient: lpPoolGradient, Infer: inferPool},
		"MaxPool":           {Gradient: maxPoolGradient, Infer: inferPool},
		"MaxUnpool":         {Gradient: maxUnpoolGradient, Infer: inferMaxUnpool, Since: 9},
	}
}
