package mpi

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// The contract of backends, with each library that is installed, over the real protocol: a
// plugin process per rank, each an MPI process of one job.
func TestConformance(t *testing.T) {
	worlds := []int{1, 3}
	if testing.Short() {
		worlds = []int{2} // every group starts its processes
	}
	eachLibrary(t, func(t *testing.T, m *mpirun) {
		sdktest.Backend(t, m.options(worlds, 0, 1, 3, 1000, 65537))
	})
}

// MPI's own sums differ from those in rank order within rounding. Their bits are the same
// on all ranks and in every run.
func TestResultsInMPIsOrder(t *testing.T) {
	eachLibrary(t, func(t *testing.T, m *mpirun) {
		o := m.options([]int{3}, 0, 1, 1000, 300_000)
		o.Options, o.AnyOrder = map[string]any{"reproducible": false}, true
		sdktest.BackendResults(t, o)
	})
}

// A segment ends within the buffer, and ranks of the inline data plane have private memory.
func TestSegmentsOfPrivateMemory(t *testing.T) {
	eachLibrary(t, func(t *testing.T, m *mpirun) {
		o := m.options([]int{2}, 1, 1000, 3001)
		o.NewGroup, o.NoArena, o.NoPrivate = m.startSegments, true, false
		sdktest.BackendResults(t, o)
	})
}

// options are those of a suite of groups of MPI processes.
func (m *mpirun) options(worlds []int, counts ...int) sdktest.BackendOptions {
	return sdktest.BackendOptions{New: newProcess("mpi", nil), NewGroup: m.start, Worlds: worlds, Counts: counts, NoPrivate: true}
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
