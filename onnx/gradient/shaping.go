package gradient

// shaping are the operators that move, copy or drop elements.
func shaping() Registry {
	return Registry{
		"Concat":          {Gradient: concatGradient, Infer: inferConcat},
		"Expand":          {Gradient: expandGradient, Infer: inferExpand},
		"Flatten":         {Gradient: reshapeGradient, Infer: inferFlatten},
		"Gather":          {Gradient: gatherGradient, Infer: inferGather},
		"GatherElements":  {Gradient: gatherElementsGradient, Infer: inferGatherElements, Since: 11},
		"GatherND":        {Gradient: gatherNDGradient, Infer: inferGatherND, Since: 11},
		"Reshape":         {Gradient: reshapeGradient, Infer: inferReshape},
		"Scatter":         {Gradient: scatterElementsGradient, Infer: inferSame, Since: 9},
		"ScatterElements": {Gradient: scatterElementsGradient, Infer: inferSame, Since: 11},
		"ScatterND":       {Gradient: scatterNDGradient, Infer: inferSame, Since: 11},
		"Slice":           {Gradient: sliceGradient, Infer: inferSlice},
		"Split":           {Gradient: splitGradient, Infer: inferSplit},
		"Squeeze":         {Gradient: squeezeGradient, Infer: inferSqueeze},
		"Transpose":       {Gradient: transposeGradient, Infer: inferTranspose},
		"Unsqueeze":       {Gradient: unsqueezeGradient, Infer: inferUnsqueeze},
	}
}
