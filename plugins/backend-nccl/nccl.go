package nccl

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/trainctl/trainctl/core/cuda/dl"
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Backend is one rank's end.
type Backend struct{ finder *dl.Finder }

// New is the plugin "nccl".
func New() *Backend { return &Backend{finder: dl.System()} }

// Info describes the plugin.
func (b *Backend) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindBackend, Name: "nccl", Version: "0.1.0",
		Summary: "collectives between NVIDIA GPUs; needs a CUDA device, which this version cannot compute on yet",
		Options: []sdk.Option{
			{Name: "library", Type: sdk.String, Doc: "Path of libnccl.so.2, when it is neither where the system keeps libraries nor in a Python environment."},
		},
		DTypes:  []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.I8, tensor.U8, tensor.I32, tensor.I64},
		Devices: []string{"cuda"},
	}
}

// Open reports why a job cannot use NCCL here. It never succeeds on a CPU job.
func (b *Backend) Open(_ context.Context, _ sdk.Group, o sdk.Options) error {
	return &sdk.Error{Code: sdk.CodeUnavailable, Text: b.missing(o.String("library"))}
}

// missing lists what NCCL needs and what of it is here. Files are looked for
// as doctor does, and none is opened.
func (b *Backend) missing(library string) string {
	parts := []string{
		"driver: " + b.look(driver.SpecCUDA, ""),
		"NCCL: " + b.look(driver.SpecNCCL, library),
		"device: this version computes on CPUs only",
	}
	return fmt.Sprintf("NCCL reduces memory of CUDA devices, and this job has none (%s); use backend.plugin = \"tcp\"", strings.Join(parts, "; "))
}

func (b *Backend) look(s dl.Spec, given string) string {
	if given != "" {
		if _, err := os.Stat(given); err == nil {
			return "found " + given
		}
		return "no file " + given
	}
	if found := b.finder.Find(s); len(found) > 0 {
		return fmt.Sprintf("found %s (%s)", found[0].Path, found[0].Source)
	}
	return fmt.Sprintf("%s was not found, %s", s.Sonames[0], s.Mend(0))
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
