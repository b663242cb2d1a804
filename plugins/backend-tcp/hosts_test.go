package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

// TestHosts runs the suite as if on hosts of two ranks each, and on hosts of unequal size.
func TestHosts(t *testing.T) {
	t.Parallel()
	for where, o := range map[string]sdktest.BackendOptions{
		"aabbcc":  {Worlds: []int{3, 4, 6}, Counts: []int{0, 1, 1000, 65537, 100_000}},
		"aaabccc": {Worlds: []int{4, 7}, Counts: []int{0, 1, 65537}},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			o.New = func(testing.TB) sdk.Backend { return onHosts(where) }
			o.Options = map[string]any{"segment_bytes": int64(8192)}
			sdktest.Backend(t, o)
		})
	}
}

// Hosts that reduce their sums in another order than that of the ranks.
func TestHostsInAnyOrder(t *testing.T) {
	t.Parallel()
	sdktest.BackendResults(t, sdktest.BackendOptions{
		New: func(testing.TB) sdk.Backend {
			b := onHostsOf(2)
			b.alwaysPartial = true
			return b
		},
		Options:  map[string]any{"reproducible": false, "segment_bytes": int64(8192)},
		Worlds:   []int{5},
		Counts:   []int{1, 5000},
		AnyOrder: true,
	})
}

func onHostsOf(n int) *Backend {
	b := New()
	b.hostOf = func(rank int) string { return fmt.Sprint("/host", rank/n) }
	return b
}

// onHosts names the host of every rank by a letter.
func onHosts(where string) *Backend {
	b := New()
	b.hostOf = func(rank int) string { return where[rank : rank+1] }
	return b
}

func TestTopology(t *testing.T) {
	for where, want := range map[string]struct {
		hosts, rails int
		peers        []int // by rank
	}{
		"aaaa":   {1, 4, []int{3, 1, 1, 1}},
		"abcd":   {4, 1, []int{3, 3, 3, 3}},
		"aabb":   {2, 2, []int{2, 2, 2, 2}},
		"aabbcc": {3, 2, []int{3, 2, 3, 3, 3, 2}},
		"aaab":   {2, 1, []int{3, 1, 1, 1}},
		"abba":   {3, 1, []int{2, 3, 1, 2}},
		"aab-":   {4, 1, []int{3, 3, 3, 3}}, // a rank that can share no memory
		"aaaaaaaabbbbbbbbccccccccdddddddd": {4, 8, slices.Concat([]int{10, 2, 2, 2, 2, 2, 2, 2},
			[]int{10, 3, 3, 3, 3, 3, 3, 3}, []int{10, 3, 3, 3, 3, 3, 3, 3}, []int{10, 2, 2, 2, 2, 2, 2, 2})},
	} {
		var all []endpoint
		for _, h := range where {
			all = append(all, endpoint{Host: strings.Trim(string(h), "-")})
		}
		for me := range all {
			tp := topologyOf(all, me, false)
			if tp.hosts() != want.hosts || tp.rails != want.rails {
				t.Fatalf("%s: %d hosts and %d rails, want %d and %d", where, tp.hosts(), tp.rails, want.hosts, want.rails)
			}
			n := 0
			for r := range all {
				its := topologyOf(all, r, false)
				if tp.peers(r) != its.peers(me) {
					t.Errorf("%s: only one of ranks %d and %d connects with the other", where, me, r)
				}
				if tp.peers(r) {
					n++
				}
			}
			if n != want.peers[me] {
				t.Errorf("%s: rank %d connects with %d ranks, want %d", where, me, n, want.peers[me])
			}
		}
		if flat := topologyOf(all, 0, true); flat.hosts() != len(all) || !flat.full() {
			t.Errorf("%s: flat, it has %d hosts", where, flat.hosts())
		}
	}
}

// The connections of a rank depend on the ranks of its host and the number of hosts, and those of a
// rank that leads none on neither.
func TestConnectionsPerRank(t *testing.T) {
	for _, test := range []struct{ ranks, hosts, most int }{{8, 1, 7}, {8, 2, 4}, {16, 4, 6}} {
		all, _ := ranksOf(t, test.ranks, 0, nil, func() *Backend { return onHostsOf(test.ranks / test.hosts) })
		if all[0].local == nil {
			t.Skip("no shared memory on this system")
		}
		for r, b := range all {
			n, want := len(b.links), 3
			if b.leads() {
				want = test.most
			}
			if n > want {
				t.Errorf("rank %d of %d on %d hosts has %d connections, want at most %d", r, test.ranks, test.hosts, n, want)
			}
		}
	}
}

// Whoever runs out of time first, all ranks name the one that did not call, which only a rank of its
// own host can see.
func TestMissingRankOfAnotherHost(t *testing.T) {
	const world, away = 6, 4
	for first := range world {
		t.Run(fmt.Sprintf("rank %d is first", first), func(t *testing.T) {
			t.Parallel()
			all, _ := ranksOf(t, world, 0, nil, func() *Backend { return onHostsOf(3) })
			if all[0].local == nil {
				t.Skip("no shared memory on this system")
			}
			err := together(world, func(r int) error {
				if r == away {
					return nil
				}
				if all[r].group.Timeout = time.Minute; r == first || first == away {
					all[r].group.Timeout = time.Second
				}
				var stall *sdk.StallError
				if err := all[r].Do(t.Context(), sumOf(tensor.Aligned(64), nil, 1)); !errors.As(err, &stall) || !slices.Equal(stall.Missing, []int{away}) {
					return fmt.Errorf("rank %d: %v", r, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Send opens a connection where there is none, within a host and between hosts, once for
// each direction.
func TestTransfersBetweenAnyRanks(t *testing.T) {
	const world = 6
	all, _ := ranksOf(t, world, 0, nil, func() *Backend { return onHostsOf(3) })
	for round := range 2 {
		for distance := 1; distance < world; distance++ {
			err := together(world, func(r int) error {
				send := sdk.Collective{Op: sdk.OpSend, DType: tensor.I32, Count: 1, Root: (r + distance) % world, Bucket: -1, Buf: tensor.Aligned(4)}
				recv := sdk.Collective{Op: sdk.OpRecv, DType: tensor.I32, Count: 1, Root: (r + world - distance) % world, Bucket: -1, Buf: tensor.Aligned(4)}
				tensor.View[int32](send.Buf)[0] = int32(100*r + distance + round)
				first, second := &send, &recv
				if r < distance { // in a circle of ranks, some must receive first
					first, second = second, first
				}
				if err := errors.Join(all[r].Do(t.Context(), first), all[r].Do(t.Context(), second)); err != nil {
					return fmt.Errorf("rank %d: %w", r, err)
				}
				if got, want := tensor.View[int32](recv.Buf)[0], int32(100*recv.Root+distance+round); got != want {
					return fmt.Errorf("rank %d got %d from rank %d, want %d", r, got, recv.Root, want)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(all[1].links); n > 2+2*(world-1) {
		t.Errorf("%d connections", n)
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
