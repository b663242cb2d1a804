package nccl

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// Place implements [sdk.Placer]. What decides is that kernels of two processes
// take turns on a GPU unless MPS runs, so that a plugin's collectives hide behind
// backward under MPS or in the rank's process only (NVIDIA's documentation of
// MPS; torchft's BabyNCCL says the same). A process of its own is worth more
// wherever that costs nothing: it can be killed and replaced.
func (b *Backend) Place(r sdk.PlaceRequest) (sdk.Placement, error) {
	process := func(why string) (sdk.Placement, error) { return sdk.Placement{Why: why}, nil }
	dir, mps := driver.MPS(r.Getenv)
	switch mode := r.Options.String("isolation"); {
	case mode == isolationInproc && r.Restarts > 0:
		return sdk.Placement{}, usererr.List{{Key: "isolation", Detail: `"inproc" and backend.restarts exclude each other: only a process can be killed and replaced`,
			Help: `use "isolated" or "auto", or set backend.restarts = 0`}}.Err()
	case mode == isolationInproc:
		return sdk.Placement{InProcess: true, Why: `isolation = "inproc"`}, nil
	case mode == isolationIsolated && mps:
		return process(fmt.Sprintf(`isolation = "isolated"; under MPS (%s) it computes beside the rank`, dir))
	case mode == isolationIsolated:
		return process(`isolation = "isolated"; without MPS it and the rank take turns on the GPU`)
	case r.Device != "cuda":
		return process("the rank computes on the CPU, so nothing competes for the GPU")
	case mps:
		return process(fmt.Sprintf("MPS runs (%s): both processes compute at the same time", dir))
	case r.Restarts > 0:
		return process("backend.restarts wants a backend that can be replaced, and only a process can")
	case !r.Overlap:
		return process("collectives do not run beside backward, so taking turns costs nothing")
	}
	return sdk.Placement{InProcess: true, Why: "without MPS processes take turns on a GPU, so collectives of another process would not hide behind backward"}, nil
}

var _ sdk.Placer = (*Backend)(nil)
