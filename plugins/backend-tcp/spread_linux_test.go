//go:build !portable

package tcp

import (
	"slices"
	"testing"
)

// The first rank on a core stays, the others move; a rank that has not written its core
// is ignored.
func TestCrowdedCores(t *testing.T) {
	l := &local{b: New(), pages: make([]page, 5)}
	for r, cpu := range []uint32{4, 0, 4, 7} { // plus one; rank 4 is on another host
		l.pages[r] = make(page, pageSize)
		l.pages[r].cpu().Store(cpu)
	}
	for rank, want := range []bool{false, false, true, false} {
		l.b.group.Rank = rank
		if crowded := l.cores(); crowded != want || !slices.Equal(l.taken, []int{3, 3, 6}) {
			t.Errorf("rank %d: crowded %v, cores %v", rank, crowded, l.taken)
		}
	}
}
