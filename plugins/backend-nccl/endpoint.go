package nccl

import (
	"encoding/json"
	"fmt"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// endpoint is what a rank tells the others about itself. It travels through
// the core as JSON.
type endpoint struct {
	Version int    `json:"v"`
	Rank    int    `json:"rank"`
	NCCL    int32  `json:"nccl"`   // 22706 is 2.27.6
	Device  string `json:"device"` // UUID
	Name    string `json:"name"`   // of the device
	Port    int    `json:"port,omitempty"`
	ID      []byte `json:"id,omitempty"` // rank 0 only, as Port: the communicator's
}

const (
	endpointVersion = 1
	maxEndpoint     = 4 << 10
)

func (e endpoint) encode() []byte {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return raw
}

// parseAll reads what the ranks' Listen returned.
func parseAll(raw [][]byte, world int) ([]endpoint, error) {
	if len(raw) != world {
		return nil, fmt.Errorf("%d endpoints for a world of %d", len(raw), world)
	}
	all := make([]endpoint, world)
	for r := range raw {
		if err := all[r].parse(raw[r], r); err != nil {
			return nil, fmt.Errorf("endpoint of rank %d: %w", r, err)
		}
	}
	return all, nil
}

func (e *endpoint) parse(raw []byte, rank int) error {
	if len(raw) > maxEndpoint {
		return fmt.Errorf("%d bytes are more than %d", len(raw), maxEndpoint)
	}
	if err := json.Unmarshal(raw, e); err != nil {
		return err
	}
	switch {
	case e.Version != endpointVersion:
		return fmt.Errorf("it has version %d, this plugin speaks %d: use the same plugin on all ranks", e.Version, endpointVersion)
	case e.Rank != rank:
		return fmt.Errorf("it says it is rank %d", e.Rank)
	case rank == 0 && (len(e.ID) != len(driver.NCCLUniqueID{}.Bytes) || e.Port < 0 || e.Port > 65535):
		return fmt.Errorf("it has no id of a communicator, or no port")
	}
	return nil
}

// sharedSince is the first version of NCCL that can serve two ranks on one GPU, 2.30.
const sharedSince = 23000

// fit checks that the ranks can form a communicator: one version of NCCL, and
// a GPU for each, unless they may share.
func fit(all []endpoint, mayShare bool) error {
	owner := map[string]int{}
	for _, e := range all {
		if e.NCCL != all[0].NCCL {
			return fmt.Errorf("rank 0 has NCCL %s and rank %d has %s; install the same version for all ranks",
				driver.NCCLVersion(all[0].NCCL), e.Rank, driver.NCCLVersion(e.NCCL))
		}
		first, taken := owner[e.Device]
		switch {
		case !taken:
			owner[e.Device] = e.Rank
		case !mayShare:
			return &sdk.Error{Code: sdk.CodeUnavailable, Text: fmt.Sprintf(
				"backend nccl: ranks %d and %d have the same GPU, %s (%s); start one rank per GPU, or set allow_shared_device = true to try it all the same",
				first, e.Rank, e.Name, e.Device)}
		case e.NCCL < sharedSince:
			return &sdk.Error{Code: sdk.CodeUnavailable, Text: fmt.Sprintf(
				"backend nccl: ranks %d and %d share %s, which NCCL %s cannot serve: install 2.30 or later, or use backend.plugin = \"tcp\"",
				first, e.Rank, e.Name, driver.NCCLVersion(e.NCCL))}
		}
	}
	return nil
}
