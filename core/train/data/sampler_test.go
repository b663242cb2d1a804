package data

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/tensor"
)

func shards(t *testing.T, cfg Config, seed uint64, n, world, epoch int) [][]int64 {
	t.Helper()
	var all [][]int64
	for r := range world {
		s, err := NewSampler(cfg, seed, n, world, r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.Epoch(epoch))
	}
	return all
}

// Computed by torch.utils.data.DistributedSampler, PyTorch 2.15.
func TestSamplerMatchesPyTorch(t *testing.T) {
	pad, drop := Config{Shuffle: true}, Config{Shuffle: true, DropLast: true}
	for _, c := range []struct {
		name            string
		cfg             Config
		n, world, epoch int
		want            [][]int64
	}{
		{"W3 pad", pad, 10, 3, 0, [][]int64{{4, 5, 0, 2}, {1, 3, 8, 4}, {7, 9, 6, 1}}},
		{"W3 drop", drop, 10, 3, 0, [][]int64{{4, 5, 0}, {1, 3, 8}, {7, 9, 6}}},
		{"W4 pad", pad, 10, 4, 0, [][]int64{{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}}},
		{"W4 drop", drop, 10, 4, 0, [][]int64{{4, 3}, {1, 9}, {7, 0}, {5, 8}}},
		{"W4 pad epoch 1", pad, 10, 4, 1, [][]int64{{5, 0, 7}, {6, 8, 4}, {1, 9, 5}, {2, 3, 6}}},
		{"W4 in order", Config{}, 10, 4, 0, [][]int64{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}},
		{"more ranks than samples", Config{}, 2, 5, 0, [][]int64{{0}, {1}, {0}, {1}, {0}}},
	} {
		if d := cmp.Diff(c.want, shards(t, c.cfg, 0, c.n, c.world, c.epoch)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestSamplerMNIST(t *testing.T) {
	w4 := shards(t, Config{Shuffle: true}, 0, 60000, 4, 0)
	for r, want := range [][]int64{{36044, 21567, 26145}, {10678, 15479, 7479}, {57327, 9481, 36531}, {55074, 43095, 9597}} {
		if d := cmp.Diff(want, w4[r][:3]); d != "" || len(w4[r]) != 15000 {
			t.Errorf("rank %d of 4: %d samples, %s", r, len(w4[r]), d)
		}
	}
	w7 := shards(t, Config{Shuffle: true}, 0, 60000, 7, 0)
	if d := cmp.Diff([]int64{25206, 6465, 55074}, w7[6][len(w7[6])-3:]); d != "" || len(w7[6]) != 8572 {
		t.Errorf("rank 6 of 7: %d samples, %s", len(w7[6]), d)
	}
	s, err := NewSampler(Config{Shuffle: true}, 40, 60000, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(tensor.Bytes(s.Epoch(2))) // seed 40, epoch 2 is randperm with seed 42
	if got := hex.EncodeToString(sum[:]); got != "7cd1a1e010482b25004c00bf2e3caae398061dfa812ba311e56e8b6b9b4cdc7a" || got != s.OrderHash(2) {
		t.Errorf("order hash %s, %s", got, s.OrderHash(2))
	}
}

// The size rules of the documentation, and every sample seen when nothing is dropped.
func TestSamplerSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, world := rapid.IntRange(0, 200).Draw(t, "n"), rapid.IntRange(1, 17).Draw(t, "world")
		cfg := Config{Shuffle: rapid.Bool().Draw(t, "shuffle"), DropLast: rapid.Bool().Draw(t, "drop")}
		want := (n + world - 1) / world
		if cfg.DropLast && n%world != 0 {
			want = n / world // ceil((n-W)/W) for n > W
		}
		seen := map[int64]int{}
		for r := range world {
			s, err := NewSampler(cfg, 7, n, world, r)
			if want == 0 {
				if err == nil {
					t.Fatal("a rank without samples was accepted")
				}
				return
			}
			if err != nil || s.Len() != want || len(s.Epoch(3)) != want {
				t.Fatalf("rank %d: %v, %d samples, want %d", r, err, len(s.Epoch(3)), want)
			}
			for _, i := range s.Epoch(3) {
				seen[i]++
			}
		}
		for i := range int64(n) {
			if k := seen[i]; !cfg.DropLast && (k < 1 || k > (want*world+n-1)/n) || cfg.DropLast && k > 1 {
				t.Fatalf("sample %d seen %d times", i, k)
			}
		}
	})
}

func TestSamplerRefusesRanksOutsideTheWorld(t *testing.T) {
	for _, r := range []int{-1, 3} {
		if _, err := NewSampler(Config{}, 0, 10, 3, r); err == nil {
			t.Errorf("rank %d of 3 was accepted", r)
		}
	}
}

func TestEvalShardCoversEverySampleOnce(t *testing.T) {
	for _, world := range []int{1, 2, 3, 7, 20} {
		seen := make([]int, 10)
		for r := range world {
			for _, i := range EvalShard(10, world, r) {
				seen[i]++
			}
		}
		for i, k := range seen {
			if k != 1 {
				t.Errorf("world size %d: sample %d evaluated %d times", world, i, k)
			}
		}
	}
}

// Without padding every sample is on exactly one rank, in the order of the
// shuffled list, and lengths differ by one at most.
func TestNoPadding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.IntRange(1, 9).Draw(t, "world")
		n := rapid.IntRange(world, 100).Draw(t, "n")
		var all []int64
		for r := range world {
			s, err := NewSampler(Config{Shuffle: true, Pad: PadNone}, 3, n, world, r)
			if err != nil {
				t.Fatal(err)
			}
			mine := s.Epoch(2)
			if len(mine) != s.Len() || s.Len() != s.LenOf(r) || len(mine) < n/world || len(mine) > (n+world-1)/world {
				t.Fatalf("rank %d has %d of %d samples, says %d", r, len(mine), n, s.Len())
			}
			all = append(all, mine...)
		}
		slices.Sort(all)
		if len(all) != n || all[0] != 0 || int(all[n-1]) != n-1 || len(slices.Compact(all)) != n {
			t.Fatalf("%d samples on all ranks, want each of %d once", len(all), n)
		}
	})
	if _, err := NewSampler(Config{Pad: PadNone}, 3, 2, 3, 0); err == nil {
		t.Error("a rank without samples was accepted")
	}
}
