package nccl

import (
	"fmt"
	"os"
	"strings"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// endpoint describes a rank to the others.
type endpoint struct {
	instance.Endpoint
	NCCL   int32  `json:"nccl"`   // 22706 is 2.27.6
	Device string `json:"device"` // UUID
	Bus    string `json:"bus"`    // PCI bus id
	Host   string `json:"host"`
	Name   string `json:"name"` // of the device

	Channels int      `json:"channels"`
	Port     int      `json:"port,omitempty"`
	IDs      [][]byte `json:"ids,omitempty"` // rank 0 only, as Port: of the communicators, by channel
}

const endpointVersion = 2

// Check returns what is wrong with the communicators' ids.
func (e endpoint) Check() error {
	if e.Rank == 0 && (len(e.IDs) != e.Channels || e.Port < 0 || e.Port > 65535) {
		return fmt.Errorf("%d communicators for %d channels, and port %d", len(e.IDs), e.Channels, e.Port)
	}
	for _, id := range e.IDs {
		if len(id) != len(driver.NCCLUniqueID{}.Bytes) {
			return fmt.Errorf("the id of a communicator has %d bytes", len(id))
		}
	}
	return nil
}

// gpu identifies a GPU. NCCL uses the PCI bus id, so slices of one GPU are one device,
// although each has a UUID.
func (e *endpoint) gpu() string {
	if e.Bus == "" || e.Host == "" {
		return e.Device
	}
	return e.Host + " " + e.Bus
}

// thisHost returns an id that all processes of a running kernel share, "" if it is
// unknown.
func thisHost() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// sharedSince is the first version of NCCL that can serve two ranks on one GPU, 2.30.
const sharedSince = 23000

// fit checks that the ranks can form a communicator: one version of NCCL, and
// a GPU for each, unless they may share.
func fit(all []endpoint, mayShare bool) error {
	owner := map[string]int{}
	for _, e := range all {
		if e.Channels != all[0].Channels {
			return fmt.Errorf("rank 0 has %d channels and rank %d has %d; all ranks need the same configuration", all[0].Channels, e.Rank, e.Channels)
		}
		if e.NCCL != all[0].NCCL {
			return fmt.Errorf("rank 0 has NCCL %s and rank %d has %s; install the same version for all ranks",
				driver.NCCLVersion(all[0].NCCL), e.Rank, driver.NCCLVersion(e.NCCL))
		}
		first, taken := owner[e.gpu()]
		switch {
		case !taken:
			owner[e.gpu()] = e.Rank
		case !mayShare:
			return &sdk.Error{Code: sdk.CodeUnavailable, Text: fmt.Sprintf(
				"backend nccl: ranks %d and %d have the same GPU, %s (%s); start one rank per GPU, or set allow_shared_device = true to try it anyway",
				first, e.Rank, e.Name, e.Device)}
		case e.NCCL < sharedSince:
			return &sdk.Error{Code: sdk.CodeUnavailable, Text: fmt.Sprintf(
				"backend nccl: ranks %d and %d share %s, which NCCL %s does not support: install 2.30 or later, or use backend.plugin = \"tcp\"",
				first, e.Rank, e.Name, driver.NCCLVersion(e.NCCL))}
		}
	}
	return nil
}
