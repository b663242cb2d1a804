package mpi

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// The contract of backends, with each library that is installed, over the real protocol: a
// plugin process per rank, each an MPI process of one job.
func TestConformance(t *testing.T) {
	worlds := []int{1, 2, 3}
	if testing.Short() {
		worlds = []int{2} // every group starts its processes
	}
	eachLibrary(t, func(t *testing.T, m *mpirun) {
		sdktest.Backend(t, sdktest.BackendOptions{
			New:       newProcess(nil),
			NewGroup:  m.start,
			Worlds:    worlds,
			Counts:    []int{0, 1, 3, 1000, 65537},
			NoPrivate: true,
		})
	})
}

// MPI's own sums differ from those in rank order within rounding. Their bits are the same
// on all ranks and in every run.
func TestResultsInMPIsOrder(t *testing.T) {
	eachLibrary(t, func(t *testing.T, m *mpirun) {
		sdktest.BackendResults(t, sdktest.BackendOptions{
			New:       newProcess(nil),
			NewGroup:  m.start,
			Options:   map[string]any{"reproducible": false},
			Worlds:    []int{3},
			Counts:    []int{0, 1, 1000, 300_000},
			AnyOrder:  true,
			NoPrivate: true,
		})
	})
}

// A segment ends within the buffer, and ranks of the inline data plane have private memory.
func TestSegmentsOfPrivateMemory(t *testing.T) {
	eachLibrary(t, func(t *testing.T, m *mpirun) {
		sdktest.BackendResults(t, sdktest.BackendOptions{
			New:      newProcess(nil),
			NewGroup: m.startInline,
			Worlds:   []int{2},
			Counts:   []int{1, 5<<20 + 3},
			NoArena:  true,
		})
	})
}

func eachLibrary(t *testing.T, f func(*testing.T, *mpirun)) {
	t.Helper()
	for i := range mpiruns {
		m := &mpiruns[i]
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.need(t)
			f(t, m)
		})
	}
}
