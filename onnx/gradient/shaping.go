package gradient

// shaping are the operators that move, copy or drop elements.
func shaping() Registry {
	return Registry{
		"CenterCropPad":   {Gradient: centerCropPadGradient, Infer: inferCenterCropPad, Since: 18},
		"Compress":        {Gradient: compressGradient, Infer: inferCompress, Since: 9},
		"Concat":          {Gradient: concatGradient, Infer: inferConcat},
		"DepthToSpace":    {Gradient: depthToSpaceGradient, Infer: inferDepthToSpace},
		"Expand":          {Gradient: expandGradient, Infer: inferExpand, Since: 8},
		"Flatten":         {Gradient: reshapeGradient, Infer: inferFlatten},
		"Gather":          {Gradient: gatherGradient, Infer: inferGather},
		"GatherElements":  {Gradient: gatherElementsGradient, Infer: inferGatherElements, Since: 11},
		"GatherND":        {Gradient: gatherNDGradient, Infer: inferGatherND, Since: 11},
		"OneHot":          {Gradient: oneHotGradient, Infer: inferOneHot, Since: 9},
		"Pad":             {Gradient: padGradient, Infer: inferPad},
		"Range":           {Gradient: rangeGradient, Infer: inferRange, Since: 11},
		"Reshape":         {Gradient: reshapeGradient, Infer: inferReshape},
		"Resize":          {Gradient: resizeGradient, Infer: inferResize, Since: 10},
		"ReverseSequence": {Gradient: reverseSequenceGradient, Infer: inferSame, Since: 10},
		"Scatter":         {Gradient: scatterElementsGradient, Infer: inferSame, Since: 9, Until: 10},
		"ScatterElements": {Gradient: scatterElementsGradient, Infer: inferSame, Since: 11},
		"ScatterND":       {Gradient: scatterNDGradient, Infer: inferSame, Since: 11},
		"Slice":           {Gradient: sliceGradient, Infer: inferSlice},
		"SpaceToDepth":    {Gradient: spaceToDepthGradient, Infer: inferSpaceToDepth},
		"Split":           {Gradient: splitGradient, Infer: inferSplit},
		"Squeeze":         {Gradient: squeezeGradient, Infer: inferSqueeze},
		"Tile":            {Gradient: tileGradient, Infer: inferTile},
		"Transpose":       {Gradient: transposeGradient, Infer: inferTranspose},
		"Trilu":           {Gradient: triluGradient, Infer: inferSame, Since: 14},
		"Unsqueeze":       {Gradient: unsqueezeGradient, Infer: inferUnsqueeze},
		"Upsample":        {Gradient: resizeGradient, Infer: inferResize, Until: 9},
	}
}
