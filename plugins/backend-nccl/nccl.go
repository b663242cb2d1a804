package nccl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Backend is one rank's end. It looks for libraries under the root of the
// file system, which tests replace.
type Backend struct{ root string }

// New is the plugin "nccl".
func New() *Backend { return &Backend{root: "/"} }

// Info describes the plugin.
func (b *Backend) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindBackend, Name: "nccl", Version: "0.1.0",
		Summary: "collectives between NVIDIA GPUs; needs a CUDA device, which this version cannot compute on yet",
		Options: []sdk.Option{
			{Name: "library", Type: sdk.String, Doc: "Path of libnccl.so.2, when it is not where the system keeps libraries."},
		},
		DTypes:  []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.I8, tensor.U8, tensor.I32, tensor.I64},
		Devices: []string{"cuda"},
	}
}

// Open reports why a job cannot use NCCL here. It never succeeds on a CPU job.
func (b *Backend) Open(_ context.Context, _ sdk.Group, o sdk.Options) error {
	return &sdk.Error{Code: sdk.CodeUnavailable, Text: b.missing(o.String("library"))}
}

// missing lists what NCCL needs and what of it is here.
func (b *Backend) missing(library string) string {
	parts := []string{
		"driver: " + b.look("libcuda.so.1", "", "install the NVIDIA driver"),
		"NCCL: " + b.look("libnccl.so.2", library, "install libnccl2, or name it by the option library"),
		"device: this version computes on CPUs only",
	}
	return fmt.Sprintf("NCCL reduces memory of CUDA devices, and this job has none (%s); use backend.plugin = \"tcp\"", strings.Join(parts, "; "))
}

// places where distributions, CUDA and containers keep libraries.
var places = []string{
	"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/cuda/lib64", "usr/local/nvidia/lib64",
}

func (b *Backend) look(name, given, mend string) string {
	if given != "" {
		if _, err := os.Stat(given); err == nil {
			return "found " + given
		}
		return "no file " + given
	}
	for _, dir := range places {
		path := filepath.Join(b.root, dir, name)
		if _, err := os.Stat(path); err == nil {
			return "found " + path
		}
	}
	return name + " was not found, " + mend
}

var errNotOpen = &sdk.Error{Code: sdk.CodeUnavailable, Text: "nccl: the backend is not open"}

// Attach is refused, because Open was.
func (b *Backend) Attach(context.Context, *sdk.Arena) error { return errNotOpen }

// Listen is refused, because Open was.
func (b *Backend) Listen(context.Context) ([]byte, error) { return nil, errNotOpen }

// Connect is refused, because Open was.
func (b *Backend) Connect(context.Context, [][]byte) error { return errNotOpen }

// Do is refused, because Open was.
func (b *Backend) Do(context.Context, *sdk.Collective) error { return errNotOpen }

// Close does nothing.
func (b *Backend) Close() error { return nil }

var _ sdk.Backend = (*Backend)(nil)
