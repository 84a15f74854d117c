// Command jempipe trains a joint energy-based model or takes a classifier, and says in batch how sure it is and
// whether it has seen anything like its inputs before.
package main

import (
	"context"
	"os"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop, signalled := watchSignals(context.Background())
	code := run(ctx, os.Args, os.Stdout, os.Stderr, signalled)
	stop()
	os.Exit(code)
}
