// Command locate prints the ONNX Runtime library that jempipe would use. It fails when there is none, so that make
// knows whether one must be fetched.
package main

import (
	"fmt"
	"os"

	ort "github.com/jempipe/jempipe/onnx/runtime"
)

func main() {
	lib, err := ort.Find("")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s (ONNX Runtime %s, %s)\n", lib.Path, lib.Version, lib.Source)
}
