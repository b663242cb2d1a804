package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// GPU is a device as the driver describes it.
type GPU = driver.DeviceReport

// MissingError reports why this machine cannot compute on a GPU.
type MissingError struct {
	What string // "no NVIDIA driver: libcuda.so.1 was not found"
	Fix  string // the command or deed that brings it
	Err  error  // of the library that was asked; nil where there was none
	// Driver is set if there is one: the user meant to use the GPU.
	Driver bool
}

func (e *MissingError) Error() string {
	if e.Fix == "" {
		return e.What
	}
	return e.What + "; " + e.Fix
}

// Unwrap returns the library's error.
func (e *MissingError) Unwrap() error { return e.Err }

// ExitCode is that of what a run needs and is not here, as of a missing plugin.
func (*MissingError) ExitCode() int { return 3 }

// patience is how long the driver may take to answer: one that lost its device never does.
const patience = 30 * time.Second

// Visible lists the GPUs that this process may use, CUDA_VISIBLE_DEVICES respected, by
// ordinal. Without one, or without a library that a plan needs, it is a *MissingError.
// It creates no context and uses no device memory.
func Visible(ctx context.Context) ([]GPU, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type answer struct {
		gpus []GPU
		err  error
	}
	asked := make(chan answer, 1) // the goroutine is left behind with a driver that hangs
	go func() {
		gpus, err := visible(dl.System())
		asked <- answer{gpus, err}
	}()
	select {
	case a := <-asked:
		return a.gpus, a.err
	case <-ctx.Done():
		return nil, &MissingError{What: "the NVIDIA driver does not answer", Fix: "dmesg may show Xid errors", Err: ctx.Err(), Driver: true}
	}
}

// visible opens the driver first: machines without GPUs have none, and fail fast.
func visible(f *dl.Finder) ([]GPU, error) {
	cu, err := driver.OpenCUDA(f)
	if err != nil {
		return nil, missing("no NVIDIA driver", driver.SpecCUDA, 0, err)
	}
	gpus, err := cu.Devices()
	var refused *driver.RefusedError
	if errors.As(cu.Refused(0, os.Getenv, err), &refused) {
		return nil, &MissingError{What: refused.What, Fix: refused.Fix, Err: err, Driver: true}
	}
	if err != nil {
		return nil, &MissingError{What: "the NVIDIA driver lists no devices: " + err.Error(), Fix: "run nvidia-smi for details", Err: err, Driver: true}
	}
	if len(gpus) == 0 {
		return nil, noneVisible()
	}
	if _, err := driver.OpenNVRTC(f); err != nil {
		major := 0
		_, _ = fmt.Sscanf(cu.Lib.Version, "%d", &major)
		e := missing("a GPU, but no NVRTC to compile its kernels", driver.SpecNVRTC, major, err)
		e.Driver = true
		return nil, e
	}
	return gpus, nil
}

func noneVisible() error {
	e := &MissingError{What: "the NVIDIA driver shows no GPU", Fix: "run nvidia-smi to list GPUs; a container needs --gpus all", Driver: true}
	if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		e.What += fmt.Sprintf(" with CUDA_VISIBLE_DEVICES = %q", v)
		e.Fix = "unset CUDA_VISIBLE_DEVICES"
	}
	return e
}

// missing reports which library was not found, or why the found one cannot be used.
func missing(what string, s dl.Spec, cuda int, err error) *MissingError {
	var none *driver.NotFoundError
	if errors.As(err, &none) && len(none.Tried) == 0 {
		return &MissingError{What: fmt.Sprintf("%s: %s was not found", what, s.Sonames[len(s.Sonames)-1]), Fix: s.Fix(cuda), Err: err}
	}
	return &MissingError{What: what + ": " + err.Error(), Fix: s.Fix(cuda), Err: err}
}
