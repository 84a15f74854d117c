package gradient

// linear are products of matrices and convolutions.
func linear() Registry {
	return Registry{
		"Conv":          {Gradient: convGradient, Infer: inferConv},
		"ConvTranspose": {Gradient: convTransposeGradient, Infer: inferConvTranspose},
		"Gemm":          {Gradient: gemmGradient, Infer: inferGemm},
		"MatMul":        {Gradient: matMulGradient, Infer: inferMatMul},
	}
}
