package nccl

import (
	"fmt"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// Place implements [sdk.Placer]. Without MPS, a GPU time-slices between processes, so a
// plugin's collectives overlap with backward only under MPS or in the rank's process
// (NVIDIA's documentation of MPS; torchft's BabyNCCL says the same). Where a separate
// process costs nothing it is better: it can be killed and replaced.
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
		return process(`isolation = "isolated"; without MPS the GPU time-slices between the plugin and the rank`)
	case r.Device != "cuda":
		return process("the rank computes on the CPU, so nothing competes for the GPU")
	case mps:
		return process(fmt.Sprintf("MPS runs (%s): both processes compute at the same time", dir))
	case r.Restarts > 0:
		return process("backend.restarts needs a backend that can be replaced, which only a separate process can")
	case !r.Overlap:
		return process("collectives do not run beside backward, so time-slicing costs nothing")
	}
	return sdk.Placement{InProcess: true, Why: "without MPS a GPU time-slices between processes, so collectives of another process would not overlap with backward"}, nil
}

var _ sdk.Placer = (*Backend)(nil)
