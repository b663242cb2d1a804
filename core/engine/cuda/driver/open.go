package driver

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/base/dl"
)

// Library describes the file of a binding.
type Library struct {
	Name    string     // "cuDNN"
	Path    string     // of the opened file
	Source  string     // how it was found
	Version string     // "9.28.0", as the library itself says
	Missing []dl.Entry // functions this version does not have; calling one returns a *dl.MissingError
}

// NotFoundError reports a library that was not found, or that cannot be used.
type NotFoundError struct {
	Spec  dl.Spec
	Tried []Attempt // files that were there
}

// Attempt is a file that was there and did not do.
type Attempt struct {
	dl.Candidate
	Err error
}

func (e *NotFoundError) Error() string {
	if len(e.Tried) == 0 {
		return fmt.Sprintf("%s (%s) was not found: %s", e.Spec.Name, e.Spec.Sonames[len(e.Spec.Sonames)-1], e.Spec.Fix(0))
	}
	s := make([]string, len(e.Tried))
	for i, a := range e.Tried {
		s[i] = fmt.Sprintf("%s (%s): %v", a.Path, a.Source, a.Err)
	}
	return fmt.Sprintf("%s cannot be used: %s", e.Spec.Name, strings.Join(s, "; "))
}

// Unwrap returns the reasons why the files that were found cannot be used.
func (e *NotFoundError) Unwrap() []error {
	out := make([]error, len(e.Tried))
	for i, a := range e.Tried {
		out[i] = a.Err
	}
	return out
}

// open finds a library, opens it and fills a binding. The first file that can
// be opened and has all it needs is taken; version asks the library.
func open(f *dl.Finder, s dl.Spec, binding any, status func(string, int32) error, version func(*dl.Library) (string, error)) (Library, error) {
	refused := &NotFoundError{Spec: s}
	for _, c := range f.Find(s) {
		l, err := dl.Open(c.Path)
		if err == nil {
			lib := Library{Name: s.Name, Path: c.Path, Source: c.Source}
			if lib.Missing, err = dl.Bind(l, binding, status); err == nil {
				if lib.Version, err = version(l); err == nil {
					return lib, nil
				}
			}
		}
		refused.Tried = append(refused.Tried, Attempt{c, err})
	}
	return Library{}, refused
}

// OpenCUDA finds and opens the driver. No function that needs a device is called.
func OpenCUDA(f *dl.Finder) (*CUDA, error) {
	c := &CUDA{}
	var err error
	c.Lib, err = open(f, SpecCUDA, c, status[CUResult](), func(l *dl.Library) (string, error) {
		c.quick(l)
		var v int32
		err := c.DriverGetVersion(&v)
		return fmt.Sprintf("%d.%d", v/1000, v%1000/10), err
	})
	return c, err
}

// OpenNVRTC finds and opens the run-time compiler.
func OpenNVRTC(f *dl.Finder) (*NVRTC, error) {
	n := &NVRTC{}
	var err error
	n.Lib, err = open(f, SpecNVRTC, n, status[NVRTCResult](), func(*dl.Library) (string, error) {
		var major, minor int32
		err := n.Version(&major, &minor)
		return fmt.Sprintf("%d.%d", major, minor), err
	})
	return n, err
}

// OpenBlasLt finds and opens cuBLASLt.
func OpenBlasLt(f *dl.Finder) (*BlasLt, error) {
	b := &BlasLt{}
	var err error
	b.Lib, err = open(f, SpecBlasLt, b, status[BlasStatus](), func(*dl.Library) (string, error) {
		v := b.GetVersion()
		return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100), nil
	})
	return b, err
}

// OpenDNN finds and opens cuDNN. Open NVRTC and cuBLASLt before it: it loads
// them by name when a plan needs them, and finds what is open already.
func OpenDNN(f *dl.Finder) (*DNN, error) {
	d := &DNN{}
	var err error
	d.Lib, err = open(f, SpecDNN, d, status[DNNStatus](), func(*dl.Library) (string, error) {
		v := d.GetVersion()
		return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100), nil
	})
	return d, err
}

// MinNCCL is the first version of NCCL that has all that is needed, 2.18.1.
const MinNCCL = 21801

// OpenNCCL finds and opens NCCL, version 2.18 or later.
func OpenNCCL(f *dl.Finder) (*NCCL, error) {
	n := &NCCL{}
	var err error
	n.Lib, err = open(f, SpecNCCL, n, status[NCCLResult](), func(*dl.Library) (string, error) {
		var v int32
		if err := n.GetVersion(&v); err != nil {
			return "", err
		}
		if v < MinNCCL {
			return "", fmt.Errorf("it is version %s, but 2.18.1 or later is needed", NCCLVersion(v))
		}
		return NCCLVersion(v), nil
	})
	return n, err
}

// NCCLVersion prints what ncclGetVersion gives: 22706 is "2.27.6".
func NCCLVersion(v int32) string {
	if v < 10000 { // up to 2.8
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}
