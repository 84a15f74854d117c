package gradient

// linear are products of matrices, and operators made of them, and convolutions.
func linear() Registry {
	return Registry{
		"Attention":       {Gradient: attentionGradient, Infer: inferAttention, Since: 23},
		"Conv":            {Gradient: convGradient, Infer: inferConv},
		"ConvTranspose":   {Gradient: convTransposeGradient, Infer: inferConvTranspose},
		"Det":             {Refuse: "its gradient needs the inverse of a matrix, for which ONNX has no operator", Infer: inferDet, Since: 11},
		"Einsum":          {Gradient: einsumGradient, Infer: inferEinsum, Since: 12},
		"Gemm":            {Gradient: gemmGradient, Infer: inferGemm},
		"MatMul":          {Gradient: matMulGradient, Infer: inferMatMul},
		"RotaryEmbedding": {Gradient: rotaryEmbeddingGradient, Infer: inferSame, Since: 23},
	}
}
