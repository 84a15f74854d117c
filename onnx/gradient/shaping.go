package gradient

// shaping are the operators that move, copy or drop elements.
func shaping() Registry {
	return Registry{
		"Concat":    {Gradient: concatGradient, Infer: inferConcat},
		"Expand":    {Gradient: expandGradient, Infer: inferExpand},
		"Flatten":   {Gradient: reshapeGradient, Infer: inferFlatten},
		"Reshape":   {Gradient: reshapeGradient, Infer: inferReshape},
		"Split":     {Gradient: splitGradient, Infer: inferSplit},
		"Slice":     {Gradient: sliceGradient, Infer: inferSlice},
		"Squeeze":   {Gradient: squeezeGradient, Infer: inferSqueeze},
		"Transpose": {Gradient: transposeGradient, Infer: inferTranspose},
		"Unsqueeze": {Gradient: unsqueezeGradient, Infer: inferUnsqueeze},
	}
}
