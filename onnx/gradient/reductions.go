package gradient

// reductions sum, or otherwise combine, elements along axes.
func reductions() Registry {
	return Registry{
		"LogSoftmax":      {Gradient: logSoftmaxGradient, Infer: inferSame},
		"ReduceLogSumExp": {Gradient: reduceLogSumExpGradient, Infer: inferReduce},
		"ReduceMax":       {Gradient: reduceMaxGradient, Infer: inferReduce},
		"ReduceMean":      {Gradient: reduceMeanGradient, Infer: inferReduce},
		"ReduceSum":       {Gradient: reduceSumGradient, Infer: inferReduce},
		"Softmax":         {Gradient: softmaxGradient, Infer: inferSame},
	}
}
