package tcp

import (
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
)

// Few rounds for small buffers, few bytes for large ones.
func TestCheapest(t *testing.T) {
	k := Cost{Alpha: 30e3, Beta: 0.67, Gamma: 0.04}
	for _, test := range []struct {
		size, ranks  int
		reproducible bool
		want         string
	}{
		{1 << 10, 2, true, algorithmDirect},
		{64 << 10, 2, false, algorithmDirect},
		{64 << 20, 2, true, algorithmMesh},
		{1 << 10, 8, true, algorithmDirect},
		{16 << 10, 16, false, algorithmDoubling},
		{64 << 10, 8, true, algorithmMesh},
		{1 << 20, 8, true, algorithmMesh},
		{4 << 20, 32, false, algorithmHalving},
	} {
		if got := k.Cheapest(test.size, test.ranks, test.reproducible); got != test.want {
			t.Errorf("%d bytes, %d ranks, reproducible %v: %s, want %s", test.size, test.ranks, test.reproducible, got, test.want)
		}
	}
}

// All ranks end with the same figures, each within reason.
func TestFitAgrees(t *testing.T) {
	for _, w := range []int{2, 3} {
		all, _ := ranks(t, w, 0, sdk.Options{"shm": false})
		k := all[0].cost
		if k == defaultCost {
			t.Error("nothing was measured")
		}
		if k.Alpha <= 0 || k.Beta <= 0 || k.Gamma <= 0 {
			t.Errorf("%v makes no sense", k)
		}
		for r, b := range all {
			if b.cost != k {
				t.Errorf("rank %d of %d has %v, rank 0 %v", r, w, b.cost, k)
			}
		}
	}
	if s := defaultCost.String(); !strings.Contains(s, "latency 30µs, 1.67 GB/s") {
		t.Errorf("%q", s)
	}
}
