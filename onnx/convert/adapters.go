package convert

// adapters are the operators whose form or meaning changed, by the version that changed them. Versions that only allow
// more types or add an attribute whose default is the former meaning need none.
var adapters = map[int64]map[string]adapter{
	9: {
		"BatchNormalization": batchNormalization9,
		"Scan":               scan9,
		"Upsample":           upsample9,
	},
	10: {
		"Dropout":      dropout10,
		"DynamicSlice": rename("Slice"),
		"Slice":        slice10,
		"TopK":         topK10,
		"Upsample":     rename("Resize"),
	},
	11: {
		"Clip":    clip11,
		"Pad":     pad11,
		"Resize":  resize11,
		"Scatter": rename("ScatterElements"),
	},
	12: {
		"Dropout": dropout12,
	},
	13: {
		"Hardmax":    softmax13,
		"LogSoftmax": softmax13,
		"ReduceSum":  axesInput,
		"Resize":     resize13,
		"Softmax":    softmax13,
		"Split":      split13,
		"Squeeze":    axesInput,
		"Unsqueeze":  axesInput,
	},
	14: {
		"BatchNormalization": batchNormalization14,
	},
	16: {
		"RoiAlign": roiAlign16,
	},
	18: {
		"ReduceL1":        axesInput,
		"ReduceL2":        axesInput,
		"ReduceLogSum":    axesInput,
		"ReduceLogSumExp": axesInput,
		"ReduceMax":       axesInput,
		"ReduceMean":      axesInput,
		"ReduceMin":       axesInput,
		"ReduceProd":      axesInput,
		"ReduceSumSquare": axesInput,
		"Split":           split18,
	},
	20: {
		"DFT":        dft20,
		"GridSample": gridSample20,
	},
	21: {
		"GroupNormalization": groupNormalization21,
	},
}
