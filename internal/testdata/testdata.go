// Package testdata finds the folder of real data sets that some tests read.
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir is the folder of real data sets: $JEMPIPE_TEST_DATA, else shared/data in a folder above the working directory.
// The test is skipped where there is none.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("JEMPIPE_TEST_DATA"); dir != "" {
		return dir
	}
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		dir := filepath.Join(at, "shared", "data")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		up := filepath.Dir(at)
		if up == at {
			t.Skip("no real data sets: set JEMPIPE_TEST_DATA or put them in shared/data beside the repository")
		}
		at = up
	}
}
