package nccl

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// libraries are the bindings that a backend uses.
type libraries struct {
	cuda *driver.CUDA
	nccl *driver.NCCL
}

// load opens the driver and NCCL and counts the devices. If something is missing, the
// error has the code sdk.CodeUnavailable.
func load(f *dl.Finder, library string) (libraries, error) {
	cuda, err := driver.OpenCUDA(f)
	if err != nil {
		return libraries{}, unavailable(f, library, err)
	}
	nccl, err := driver.OpenNCCL(naming(f, library))
	if err != nil {
		return libraries{}, unavailable(f, library, err)
	}
	return libraries{cuda, nccl}, nil
}

// naming returns f with a given path instead of the search for NCCL.
func naming(f *dl.Finder, library string) *dl.Finder {
	if library == "" {
		return f
	}
	return &dl.Finder{Root: f.Root, Python: f.Python, Getenv: func(name string) string {
		if name == driver.SpecNCCL.Env {
			return library
		}
		return f.Getenv(name)
	}}
}

// unavailable lists what NCCL needs and what of it was found.
func unavailable(f *dl.Finder, library string, cause error) error {
	parts := []string{"driver: " + look(f, driver.SpecCUDA, ""), "NCCL: " + look(f, driver.SpecNCCL, library)}
	var none *driver.NotFoundError
	if !errors.As(cause, &none) || len(none.Tried) > 0 {
		parts = append(parts, "cause: "+cause.Error())
	}
	return &sdk.Error{Code: sdk.CodeUnavailable, Text: fmt.Sprintf(
		"NCCL reduces memory of CUDA devices, and this machine gives it none (%s); use backend.plugin = \"tcp\"", strings.Join(parts, "; "))}
}

func look(f *dl.Finder, s dl.Spec, given string) string {
	if given != "" {
		if _, err := os.Stat(given); err == nil {
			return "found " + given
		}
		return "no file " + given
	}
	if found := f.Find(s); len(found) > 0 {
		return fmt.Sprintf("found %s (%s)", found[0].Path, found[0].Source)
	}
	return fmt.Sprintf("%s was not found, %s", s.Sonames[0], s.Fix(0))
}
