package gradient

// linear are products of matrices and convolutions.
func linear() Registry {
	return Registry{
		"Conv":          {Gradient: convGradient, Infer: inferConv},
		"ConvTranspose": {Gradient: convTransposeGradient, Infer: inferConvTranspose},
		"Det":           {Refuse: "its gradient needs the inverse of a matrix, for which ONNX has no operator", Infer: inferDet, Since: 11},
		"Einsum":        {Gradient: einsumGradient, Infer: inferEinsum, Since: 12},
		"Gemm":          {Gradient: gemmGradient, Infer: inferGemm},
		"MatMul":        {Gradient: matMulGradient, Infer: inferMatMul},
	}
}
