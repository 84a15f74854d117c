// Package gradient differentiates ONNX graphs in reverse mode. The gradient is written with standard ONNX operators,
// so every ONNX Runtime can run it.
//
// An operator is one file: its vector-Jacobian product, what it does to shapes, and beside it, in the test file, the
// cases on which both are compared with a numeric Jacobian. The family tables, elementwise.go to constants.go, are the list
// of what is supported; a new operator is its file and one line in its family.
package gradient
