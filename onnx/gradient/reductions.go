package gradient

// reductions sum, or otherwise combine, elements along axes.
func reductions() Registry {
	return Registry{
		"CumProd":                   {Gradient: cumProdGradient, Infer: inferSame, Since: 26},
		"CumSum":                    {Gradient: cumSumGradient, Infer: inferSame, Since: 11},
		"LogSoftmax":                {Gradient: logSoftmaxGradient, Infer: inferSame},
		"NegativeLogLikelihoodLoss": {Gradient: negativeLogLikelihoodLossGradient, Infer: inferNegativeLogLikelihoodLoss, Since: 12},
		"ReduceL1":                  {Gradient: reduceL1Gradient, Infer: inferReduce},
		"ReduceL2":                  {Gradient: reduceL2Gradient, Infer: inferReduce},
		"ReduceLogSum":              {Gradient: reduceLogSumGradient, Infer: inferReduce},
		"ReduceLogSumExp":           {Gradient: reduceLogSumExpGradient, Infer: inferReduce},
		"ReduceMax":                 {Gradient: reduceMaxGradient, Infer: inferReduce},
		"ReduceMean":                {Gradient: reduceMeanGradient, Infer: inferReduce},
		"ReduceMin":                 {Gradient: reduceMinGradient, Infer: inferReduce},
		"ReduceProd":                {Gradient: reduceProdGradient, Infer: inferReduce},
		"ReduceSum":                 {Gradient: reduceSumGradient, Infer: inferReduce},
		"ReduceSumSquare":           {Gradient: reduceSumSquareGradient, Infer: inferReduce},
		"Softmax":                   {Gradient: softmaxGradient, Infer: inferSame},
		"SoftmaxCrossEntropyLoss":   {Gradient: softmaxCrossEntropyLossGradient, Infer: inferSoftmaxCrossEntropyLoss, Since: 12},
		"TopK":                      {Gradient: topKGradient, Infer: inferTopK},
	}
}
