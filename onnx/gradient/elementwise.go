package gradient

// elementwise are the operators that compute each element by itself, after broadcasting.
func elementwise() Registry {
	return Registry{
		"Add":       {Gradient: addGradient, Infer: inferBroadcast},
		"Cast":      {Gradient: castGradient, Infer: inferCast},
		"Div":       {Gradient: divGradient, Infer: inferBroadcast},
		"Exp":       {Gradient: expGradient, Infer: inferSame},
		"Identity":  {Gradient: identityGradient, Infer: inferSame},
		"LeakyRelu": {Gradient: leakyReluGradient, Infer: inferSame},
		"Log":       {Gradient: logGradient, Infer: inferSame},
		"Mul":       {Gradient: mulGradient, Infer: inferBroadcast},
		"Neg":       {Gradient: negGradient, Infer: inferSame},
		"Relu":      {Gradient: reluGradient, Infer: inferSame},
		"Sigmoid":   {Gradient: sigmoidGradient, Infer: inferSame},
		"Softplus":  {Gradient: softplusGradient, Infer: inferSame},
		"Sqrt":      {Gradient: sqrtGradient, Infer: inferSame},
		"Sub":       {Gradient: subGradient, Infer: inferBroadcast},
		"Sum":       {Gradient: sumGradient, Infer: inferBroadcast},
		"Tanh":      {Gradient: tanhGradient, Infer: inferSame},
		"Where":     {Infer: inferWhere},
	}
}
