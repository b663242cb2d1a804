package rig

import (
	"os"
	"path/filepath"
)

// MNIST returns the folder with the real data set, beside the repository. The test is skipped if it is missing.
func MNIST(t interface {
	TB
	Skipf(format string, args ...any)
}) string {
	t.Helper()
	root, err := ModuleRoot()
	Must(t, err)
	dir := filepath.Join(root, "..", "shared", "mnist")
	if _, err := os.Stat(filepath.Join(dir, "train-images-idx3-ubyte.gz")); err != nil {
		t.Skipf("real MNIST is not in ../shared/mnist: %v", err)
	}
	return dir
}
