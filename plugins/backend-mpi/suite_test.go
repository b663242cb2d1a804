package mpi

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// The contract of backends, with each library that is installed, over the real protocol: a
// plugin process per rank, each an MPI process of one job.
func TestConformance(t *testing.T) {
	for _, m := range mpiruns {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.need(t)
			sdktest.Backend(t, sdktest.BackendOptions{
				New:       newProcess(nil),
				NewGroup:  m.start,
				Worlds:    []int{1, 2, 3},
				Counts:    []int{0, 1, 3, 1000, 65537},
				NoPrivate: true,
			})
		})
	}
}
