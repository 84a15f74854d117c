package gradient

const (
	ofSequence  = "it works on a list of tensors, through which gradients are not followed: export the model with tensors only, for instance with Concat and Split"
	ofOptional  = "it works on an optional value, through which gradients are not followed: export the model without optional values"
	ofControl   = "gradients are not followed into the graphs inside it: export the model with a fixed number of steps or a fixed branch, so that these nodes stand in the main graph"
	ofRecurrent = "gradients of recurrent layers are not supported: export the cell unrolled over the time steps (MatMul, Sigmoid, Tanh), or differentiate with respect to a value behind it"
	ofRandom    = "its output is drawn at random: export the model for inference, without sampling"
	ofRounding  = "it rounds to integers, so its gradient is 0 almost everywhere: use the model from before quantisation"
	ofIntegers  = "it computes with integers, which have no gradient: use the model from before quantisation"
	ofStrings   = "it works on text, which has no gradient: differentiate with respect to a value behind it"
	ofMaps      = "it works on dictionaries, which have no gradient: export the model with tensors, for instance zipmap=False in skl2onnx"
	ofTrees     = "decision trees are constant between their thresholds, so their gradient is 0 almost everywhere: use a smooth model, such as a neural network or a logistic regression"
	ofVectors   = "gradients of support vector machines are not supported: export the kernel as standard operators (MatMul, Exp), or use another model"
	ofUnique    = "it sorts and drops elements, and their number varies: export the model without it"
	ofSampling  = "gradients of sampling at computed coordinates are not supported: resize with Resize, or crop with Slice, instead"
	ofSpectra   = "gradients of Fourier transforms are not supported: export the transform as a product with a constant matrix (MatMul)"
	ofBits      = "it reads the bits of a number as another number, which has no gradient: export the model without it"
	ofImages    = "it decodes a file, which has no gradient: decode the image before the model"
	ofCaches    = "its gradient is not supported: export the model with Concat, or with ScatterElements, instead"
	ofColumns   = "its gradient is not supported: export the model with ConvTranspose instead"
)

// refusals are the operators that cannot be differentiated, each with what to do about it.
func refusals() Registry {
	return Registry{
		"AffineGrid":                        {Refuse: ofSampling, Since: 20},
		"Bernoulli":                         {Refuse: ofRandom, Since: 15},
		"BitCast":                           {Refuse: ofBits, Since: 26},
		"Col2Im":                            {Refuse: ofColumns, Since: 18},
		"ConcatFromSequence":                {Refuse: ofSequence, Since: 11},
		"ConvInteger":                       {Refuse: ofIntegers, Since: 10},
		"DFT":                               {Refuse: ofSpectra, Since: 17},
		"DeformConv":                        {Refuse: ofSampling, Since: 19},
		"DequantizeLinear":                  {Refuse: ofIntegers, Since: 10},
		"DynamicQuantizeLinear":             {Refuse: ofRounding, Since: 11},
		"GRU":                               {Refuse: ofRecurrent},
		"GridSample":                        {Refuse: ofSampling, Since: 16},
		"If":                                {Refuse: ofControl},
		"ImageDecoder":                      {Refuse: ofImages, Since: 20},
		"LSTM":                              {Refuse: ofRecurrent},
		"Loop":                              {Refuse: ofControl},
		"MatMulInteger":                     {Refuse: ofIntegers, Since: 10},
		"MaxRoiPool":                        {Refuse: ofSampling},
		"Multinomial":                       {Refuse: ofRandom},
		"Optional":                          {Refuse: ofOptional, Since: 15},
		"OptionalGetElement":                {Refuse: ofOptional, Since: 15},
		"OptionalHasElement":                {Refuse: ofOptional, Since: 15},
		"QLinearConv":                       {Refuse: ofIntegers, Since: 10},
		"QLinearMatMul":                     {Refuse: ofIntegers, Since: 10},
		"QuantizeLinear":                    {Refuse: ofRounding, Since: 10},
		"RNN":                               {Refuse: ofRecurrent},
		"RegexFullMatch":                    {Refuse: ofStrings, Since: 20},
		"RoiAlign":                          {Refuse: ofSampling, Since: 10},
		"STFT":                              {Refuse: ofSpectra, Since: 17},
		"Scan":                              {Refuse: ofControl, Since: 8},
		"SequenceAt":                        {Refuse: ofSequence, Since: 11},
		"SequenceConstruct":                 {Refuse: ofSequence, Since: 11},
		"SequenceEmpty":                     {Refuse: ofSequence, Since: 11},
		"SequenceErase":                     {Refuse: ofSequence, Since: 11},
		"SequenceInsert":                    {Refuse: ofSequence, Since: 11},
		"SequenceLength":                    {Refuse: ofSequence, Since: 11},
		"SequenceMap":                       {Refuse: ofSequence, Since: 17},
		"SplitToSequence":                   {Refuse: ofSequence, Since: 11},
		"StringConcat":                      {Refuse: ofStrings, Since: 20},
		"StringNormalizer":                  {Refuse: ofStrings, Since: 10},
		"StringSplit":                       {Refuse: ofStrings, Since: 20},
		"TensorScatter":                     {Refuse: ofCaches, Since: 24},
		"TfIdfVectorizer":                   {Refuse: ofStrings, Since: 9},
		"Unique":                            {Refuse: ofUnique, Since: 11},
		"ai.onnx.ml.CastMap":                {Refuse: ofMaps},
		"ai.onnx.ml.CategoryMapper":         {Refuse: ofStrings},
		"ai.onnx.ml.DictVectorizer":         {Refuse: ofMaps},
		"ai.onnx.ml.LabelEncoder":           {Refuse: ofStrings},
		"ai.onnx.ml.SVMClassifier":          {Refuse: ofVectors},
		"ai.onnx.ml.SVMRegressor":           {Refuse: ofVectors},
		"ai.onnx.ml.TreeEnsemble":           {Refuse: ofTrees, Since: 5},
		"ai.onnx.ml.TreeEnsembleClassifier": {Refuse: ofTrees, Until: 4},
		"ai.onnx.ml.TreeEnsembleRegressor":  {Refuse: ofTrees, Until: 4},
		"ai.onnx.ml.ZipMap":                 {Refuse: ofMaps},
	}
}
