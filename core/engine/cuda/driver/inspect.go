package driver

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/dl"
)

// Inspection is what this machine has for computing on GPUs.
type Inspection struct {
	Libraries []LibraryReport `json:"libraries"`
	Devices   []DeviceReport  `json:"devices"`
	Problems  []string        `json:"problems"` // what does not fit together
}

// LibraryReport is one library: where it is, or why it is not used.
type LibraryReport struct {
	Name    string   `json:"name"`
	Path    string   `json:"path,omitempty"` // also of a file that cannot be used
	Version string   `json:"version,omitempty"`
	Source  string   `json:"source,omitempty"`
	Missing []string `json:"missing,omitempty"` // functions this version does not have
	Error   string   `json:"error,omitempty"`
	Fix     string   `json:"fix,omitempty"`
}

// DeviceReport is one GPU.
type DeviceReport struct {
	Ordinal    int    `json:"ordinal"`
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Capability string `json:"capability"` // "9.0"
	Memory     int64  `json:"memory_bytes"`
	SMs        int    `json:"multiprocessors"`
	IPC        string `json:"ipc"`                    // how buckets are shared with a plugin: "fd", "legacy" or "none"
	Mode       string `json:"compute_mode,omitempty"` // as nvidia-smi calls it; "" for DEFAULT
}

// Inspect opens every library and lists the devices of the driver. It creates no
// context, so it uses no device memory.
func Inspect(f *dl.Finder) Inspection {
	in := Inspection{Libraries: []LibraryReport{}, Devices: []DeviceReport{}, Problems: []string{}}
	cuda, err := OpenCUDA(f)
	major := 0
	if err == nil {
		major = leading(cuda.Lib.Version)
	}
	in.add(SpecCUDA, cuda.Lib, err, major)
	nvrtc, err := OpenNVRTC(f)
	in.add(SpecNVRTC, nvrtc.Lib, err, major)
	blas, err := OpenBlasLt(f)
	in.add(SpecBlasLt, blas.Lib, err, major)
	dnn, err := OpenDNN(f)
	in.add(SpecDNN, dnn.Lib, err, major)
	nccl, err := OpenNCCL(f)
	in.add(SpecNCCL, nccl.Lib, err, major)
	if cuda.Lib.Path != "" {
		in.devices(cuda)
	}
	in.Problems = append(in.Problems, mixed(cuda.Lib, nvrtc.Lib, blas.Lib)...)
	return in
}

func (in *Inspection) add(s dl.Spec, l Library, err error, cuda int) {
	r := LibraryReport{Name: s.Name, Path: l.Path, Version: l.Version, Source: l.Source}
	for _, e := range l.Missing {
		r.Missing = append(r.Missing, e.Symbol+" (since "+e.Since+")")
	}
	if err != nil {
		r.Error, r.Fix = err.Error(), s.Fix(cuda)
		var none *NotFoundError
		switch {
		case !errors.As(err, &none):
		case len(none.Tried) == 0:
			r.Error = strings.Join(s.Sonames, " or ") + " was not found"
		default:
			r.Path, r.Source = none.Tried[0].Path, none.Tried[0].Source
		}
	}
	in.Libraries = append(in.Libraries, r)
}

func (in *Inspection) devices(c *CUDA) {
	devices, err := c.Devices()
	if err != nil {
		in.Problems = append(in.Problems, "the driver lists no devices: "+c.Refused(0, os.Getenv, err).Error())
	}
	in.Devices = append(in.Devices, devices...)
	for _, d := range devices {
		if d.Mode != "" {
			in.Problems = append(in.Problems, fmt.Sprintf("device %d is in compute mode %s, not DEFAULT: a rank and its plugin process cannot both use it without MPS", d.Ordinal, d.Mode))
		}
	}
	if dir := staleMPS(os.Getenv); dir != "" {
		in.Problems = append(in.Problems, fmt.Sprintf("no MPS daemon listens at the pipe %s/control; fix: start nvidia-cuda-mps-control -d, or remove the folder", dir))
	}
}

// Devices initialises the driver and describes its devices. A machine without
// one gives none, and no error.
func (c *CUDA) Devices() ([]DeviceReport, error) {
	var n int32
	err := c.Init(0)
	if err == nil {
		err = c.DeviceGetCount(&n)
	}
	if errors.Is(err, NoDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]DeviceReport, 0, n)
	for i := range n {
		d, err := c.describe(i)
		if err != nil {
			return out, fmt.Errorf("device %d: %w", i, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func (c *CUDA) describe(ordinal int32) (DeviceReport, error) {
	var d Device
	var name [256]byte
	var uuid UUID
	var bytes uintptr
	err := errors.Join(
		c.DeviceGet(&d, ordinal), c.DeviceGetName(&name[0], int32(len(name)), d),
		c.DeviceGetUUID(&uuid, d), c.DeviceTotalMem(&bytes, d))
	if err != nil {
		return DeviceReport{}, err
	}
	return DeviceReport{
		Ordinal: int(ordinal), Name: FromBuffer(name[:]), UUID: uuid.String(), Memory: int64(bytes),
		Capability: fmt.Sprintf("%d.%d", c.attribute(d, AttrComputeCapabilityMajor), c.attribute(d, AttrComputeCapabilityMinor)),
		SMs:        c.attribute(d, AttrMultiprocessors), IPC: c.sharing(d), Mode: modes[c.attribute(d, AttrComputeMode)],
	}, nil
}

var modes = map[int]string{ComputeProhibited: "PROHIBITED", ComputeExclusive: "EXCLUSIVE_PROCESS"}

// attribute is a device's attribute, 0 where the driver does not know it.
func (c *CUDA) attribute(d Device, a DeviceAttribute) int {
	var v int32
	if err := c.DeviceGetAttribute(&v, a, d); err != nil {
		return 0
	}
	return int(v)
}

// sharing describes how a device's memory can be shared with another process.
func (c *CUDA) sharing(d Device) string {
	switch {
	case c.attribute(d, AttrVirtualMemory) != 0 && c.attribute(d, AttrPosixFDHandles) != 0:
		return "fd"
	case c.attribute(d, AttrIPCEvents) != 0:
		return "legacy"
	}
	return "none"
}

// String prints the UUID as nvidia-smi does.
func (u UUID) String() string {
	b := u.Bytes
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// mixed reports which of the libraries come from different generations of CUDA, or
// from one that the driver is too old for. A driver runs what was built for its own
// major version and for earlier ones.
func mixed(cuda, nvrtc, blas Library) []string {
	var out []string
	for _, l := range []Library{nvrtc, blas} {
		if cuda.Path != "" && l.Path != "" && leading(l.Version) > leading(cuda.Version) {
			out = append(out, fmt.Sprintf("%s %s (%s) needs a newer driver than this one, which supports CUDA %s", l.Name, l.Version, l.Path, cuda.Version))
		}
	}
	if nvrtc.Path != "" && blas.Path != "" && leading(nvrtc.Version) != leading(blas.Version) {
		out = append(out, fmt.Sprintf("%s %s (%s) and %s %s (%s) are of different CUDA versions",
			nvrtc.Name, nvrtc.Version, nvrtc.Path, blas.Name, blas.Version, blas.Path))
	}
	return out
}

// leading is the number that a version starts with.
func leading(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return n
}
