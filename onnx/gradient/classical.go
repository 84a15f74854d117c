package gradient

// classical are the operators of the domain ai.onnx.ml, in which tools export preprocessing and classical models.
func classical() Registry {
	return Registry{
		"ai.onnx.ml.ArrayFeatureExtractor": {Gradient: arrayFeatureExtractorGradient, Infer: inferArrayFeatureExtractor},
		"ai.onnx.ml.Binarizer":             {Stops: true, Infer: inferSame},
		"ai.onnx.ml.FeatureVectorizer":     {Gradient: featureVectorizerGradient, Infer: inferFeatureVectorizer},
		"ai.onnx.ml.Imputer":               {Gradient: imputerGradient, Infer: inferSame},
		"ai.onnx.ml.LinearClassifier":      {Gradient: linearClassifierGradient, Infer: inferLinearClassifier},
		"ai.onnx.ml.LinearRegressor":       {Gradient: linearRegressorGradient, Infer: inferLinearRegressor},
		"ai.onnx.ml.Normalizer":            {Gradient: normalizerGradient, Infer: inferSingle},
		"ai.onnx.ml.OneHotEncoder":         {Stops: true, Infer: inferOneHotEncoder},
		"ai.onnx.ml.Scaler":                {Gradient: scalerGradient, Infer: inferSingle},
	}
}
