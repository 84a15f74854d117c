package gradient

// normalisations bring groups of elements to a common mean or size.
func normalisations() Registry {
	return Registry{
		"BatchNormalization":        {Gradient: batchNormalizationGradient, Infer: inferBatchNormalization},
		"GroupNormalization":        {Gradient: groupNormalizationGradient, Infer: inferSame, Since: 18},
		"Hardmax":                   {Stops: true, Infer: inferSame},
		"InstanceNormalization":     {Gradient: instanceNormalizationGradient, Infer: inferSame},
		"LRN":                       {Gradient: lrnGradient, Infer: inferSame},
		"LayerNormalization":        {Gradient: layerNormalizationGradient, Infer: inferLayerNormalization, Since: 17},
		"LpNormalization":           {Gradient: lpNormalizationGradient, Infer: inferSame},
		"MeanVarianceNormalization": {Gradient: meanVarianceNormalizationGradient, Infer: inferSame, Since: 9},
		"RMSNormalization":          {Gradient: rmsNormalizationGradient, Infer: inferSame, Since: 23},
	}
}
