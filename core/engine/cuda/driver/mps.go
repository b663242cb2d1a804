package driver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// MPS is the pipe directory of NVIDIA's multi-process service and whether its
// control daemon listens there. Processes that share a GPU compute at the same
// time only under it; without it the GPU runs one process at a time.
func MPS(getenv func(string) string) (dir string, on bool) {
	dir, on, _ = mps(getenv)
	return dir, on
}

// staleMPS is the pipe directory that a control daemon left behind which does not
// run any more; "" where there is none. Programs that find it may fail to connect.
func staleMPS(getenv func(string) string) string {
	if dir, _, stale := mps(getenv); stale {
		return dir
	}
	return ""
}

func mps(getenv func(string) string) (dir string, on, stale bool) {
	dir = getenv("CUDA_MPS_PIPE_DIRECTORY")
	if dir == "" {
		dir = "/tmp/nvidia-mps"
	}
	control := filepath.Join(dir, "control")
	info, err := os.Stat(control)
	if err != nil || info.IsDir() {
		return dir, false, false
	}
	stale = !listened(control, info.Mode())
	return dir, !stale, stale
}

// listened reports whether a process has the other end of a socket or a pipe. What
// cannot be found out, for want of permission, counts as yes.
func listened(path string, mode os.FileMode) bool {
	var end io.Closer
	var err error
	if mode&os.ModeSocket != 0 {
		end, err = net.DialTimeout("unix", path, time.Second)
	} else {
		end, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		_ = end.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENXIO)
}

// Compute modes of a device (CUcomputemode).
const (
	ComputeDefault    = 0
	ComputeProhibited = 2
	ComputeExclusive  = 3 // one process at a time
)

// A RefusedError explains why the driver does not let this process compute on a GPU
// that is there.
type RefusedError struct {
	What string // what is wrong, and where
	Fix  string // what to do about it
	Err  error  // the driver's
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s (%v); fix: %s", e.What, e.Err, e.Fix) }

// Unwrap returns the driver's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// Refused explains an error of opening the driver or a device if its cause is the
// device's compute mode or MPS; it returns any other error unchanged.
func (c *CUDA) Refused(d Device, getenv func(string) string, err error) error {
	var code CUResult
	if !errors.As(err, &code) {
		return err
	}
	dir, _, _ := mps(getenv)
	switch {
	case code >= MPSConnectionFailed && code <= MPSClientTerminated:
		return &RefusedError{fmt.Sprintf("the MPS control daemon of %s refuses this process", dir),
			"start it with nvidia-cuda-mps-control -d, or remove " + dir + " to compute without MPS", err}
	case code != DeviceUnavailable:
		return err
	case c.attribute(d, AttrComputeMode) == ComputeProhibited:
		return &RefusedError{fmt.Sprintf("%s is in compute mode PROHIBITED", c.uuidOf(d)), c.modeFix(d), err}
	case c.attribute(d, AttrComputeMode) == ComputeExclusive:
		return &RefusedError{fmt.Sprintf("%s is in compute mode EXCLUSIVE_PROCESS, and another process uses it", c.uuidOf(d)),
			`end that process (nvidia-smi lists it), start MPS, set backend.options.isolation = "inproc" if it is the nccl plugin, or run ` + c.modeFix(d), err}
	}
	return err
}

func (c *CUDA) modeFix(d Device) string {
	return "nvidia-smi -i " + c.uuidOf(d) + " --compute-mode DEFAULT"
}

func (c *CUDA) uuidOf(d Device) string {
	var id UUID
	if c.DeviceGetUUID(&id, d) != nil {
		return "the GPU"
	}
	return id.String()
}
