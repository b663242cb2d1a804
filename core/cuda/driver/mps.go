package driver

import (
	"os"
	"path/filepath"
)

// MPS is the pipe directory of NVIDIA's multi-process service and whether its
// control daemon listens there. Processes that share a GPU compute at the same
// time only under it; without it they take turns.
func MPS(getenv func(string) string) (dir string, on bool) {
	dir = getenv("CUDA_MPS_PIPE_DIRECTORY")
	if dir == "" {
		dir = "/tmp/nvidia-mps"
	}
	info, err := os.Stat(filepath.Join(dir, "control"))
	return dir, err == nil && !info.Mode().IsDir()
}
