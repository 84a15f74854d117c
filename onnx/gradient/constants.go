package gradient

// constants are the operators that a gradient does not pass.
func constants() Registry {
	return Registry{
		"And":             {Stops: true, Infer: inferCompare},
		"ArgMax":          {Stops: true, Infer: inferArg},
		"ArgMin":          {Stops: true, Infer: inferArg},
		"Ceil":            {Stops: true, Infer: inferSame},
		"Constant":        {Stops: true, Infer: inferConstant},
		"ConstantOfShape": {Stops: true, Infer: inferConstantOfShape},
		"Equal":           {Stops: true, Infer: inferCompare},
		"Floor":           {Stops: true, Infer: inferSame},
		"Greater":         {Stops: true, Infer: inferCompare},
		"GreaterOrEqual":  {Stops: true, Infer: inferCompare},
		"Hardmax":         {Stops: true, Infer: inferSame},
		"IsInf":           {Stops: true, Infer: inferCompare},
		"IsNaN":           {Stops: true, Infer: inferCompare},
		"Less":            {Stops: true, Infer: inferCompare},
		"LessOrEqual":     {Stops: true, Infer: inferCompare},
		"NonZero":         {Stops: true, Infer: inferNonZero},
		"Not":             {Stops: true, Infer: inferCompare},
		"Or":              {Stops: true, Infer: inferCompare},
		"Round":           {Stops: true, Infer: inferSame},
		"Shape":           {Stops: true, Infer: inferShape},
		"Sign":            {Stops: true, Infer: inferSame},
		"Size":            {Stops: true, Infer: inferSize},
		"Xor":             {Stops: true, Infer: inferCompare},
	}
}
