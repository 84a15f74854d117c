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
	ofColumns   = "its gradient is not supported: export the model with ConvTranspose instead"
)

// refusals are the operators that cannot be differentiated, each with what to do about it.
func refusals() Registry {
	all := Registry{}
	for reason, names := range map[string][]string{
		ofSequence:  {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"},
		ofOptional:  {"Optional", "OptionalGetElement", "OptionalHasElement"},
		ofControl:   {"If", "Loop", "Scan"},
		ofRecurrent: {"GRU", "LSTM", "RNN"},
		ofRandom:    {"Bernoulli", "Multinomial"},
		ofRounding:  {"DynamicQuantizeLinear", "QuantizeLinear"},
		ofIntegers:  {"ConvInteger", "DequantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul"},
		ofStrings:   {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "ai.onnx.ml.LabelEncoder", "ai.onnx.ml.CategoryMapper"},
		ofMaps:      {"ai.onnx.ml.CastMap", "ai.onnx.ml.DictVectorizer", "ai.onnx.ml.ZipMap"},
		ofTrees:     {"ai.onnx.ml.TreeEnsemble", "ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.TreeEnsembleRegressor"},
		ofVectors:   {"ai.onnx.ml.SVMClassifier", "ai.onnx.ml.SVMRegressor"},
		ofUnique:    {"Unique"},
		ofSampling:  {"AffineGrid", "GridSample"},
		ofColumns:   {"Col2Im"},
	} {
		for _, name := range names {
			all[name] = Rule{Refuse: reason}
		}
	}
	return all
}
