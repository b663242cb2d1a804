package tcp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

// TestHosts runs the suite as if on hosts of two ranks each.
func TestHosts(t *testing.T) {
	t.Parallel()
	sdktest.Backend(t, sdktest.BackendOptions{
		New:     func(testing.TB) sdk.Backend { return onHostsOf(2) },
		Options: map[string]any{"segment_bytes": int64(8192)},
		Worlds:  []int{3, 4, 6},
		Counts:  []int{0, 1, 1000, 65537, 100_000},
	})
}

func onHostsOf(n int) *Backend {
	b := New()
	b.hostOf = func(rank int) string { return fmt.Sprint("/host", rank/n) }
	return b
}

func TestPerHost(t *testing.T) {
	for hosts, want := range map[string]int{
		"aabb": 2, "aabbcc": 2, "aaabbb": 3, "aaaa": 0, "ab": 0, "abab": 0, "aab": 0, "aabbaa": 0, "aaabb": 0, "aa--": 0, "----": 0, "a": 0, "aabc": 0,
	} {
		var all []endpoint
		for _, h := range hosts {
			e := endpoint{Host: string(h)}
			if h == '-' {
				e.Host = ""
			}
			all = append(all, e)
		}
		if got := perHost(all); got != want {
			t.Errorf("%s: %d ranks per host, want %d", hosts, got, want)
		}
	}
}

// From host to host, results have the same bits as with mesh, and less is sent: every
// owner sends its slice once forward and once back.
func TestHostsMatchTheMesh(t *testing.T) {
	const world, n, size = 6, 2, 6 * 100_032
	chained, arenas := ranksOf(t, world, size, nil, func() *Backend { return onHostsOf(n) })
	if chained[0].local == nil {
		t.Skip("no shared memory on this system")
	}
	flat, _ := ranks(t, world, 0, sdk.Options{"shm": false})
	for seq, red := range []sdk.ReduceOp{sdk.Sum, sdk.Avg, sdk.Min, sdk.Prod} {
		private := make([][]byte, world)
		for r := range world {
			x := tensor.View[float32](arenas[r].Bytes())
			for i := range x {
				x[i] = 1 / float32(1+(r*7919+i*104729)%1000)
			}
			private[r] = bytes.Clone(arenas[r].Bytes())
		}
		before := chained[0].sent.payload.Load()
		err := together(world, func(r int) error {
			c := sumOf(arenas[r].Bytes(), arenas[r], seq+1)
			c.Reduce = red
			if err := chained[r].Do(t.Context(), c); err != nil {
				return err
			}
			c = sumOf(private[r], nil, seq+1)
			c.Reduce = red
			return flat[r].Do(t.Context(), c)
		})
		if err != nil {
			t.Fatal(err)
		}
		for r := range world {
			if !bytes.Equal(arenas[r].Bytes(), private[r]) {
				t.Errorf("%v: rank %d has other bits than with mesh", red, r)
			}
		}
		if got := chained[0].sent.payload.Load() - before; got != size/n {
			t.Errorf("%v: rank 0 sent %d bytes, want %d", red, got, size/n)
		}
	}
}
