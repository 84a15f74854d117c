// Command jempipe trains a joint energy-based model or takes a classifier, and says in batch how sure it is and
// whether it has seen anything like its inputs before.
package main

import (
	"context"
	"os"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) }
