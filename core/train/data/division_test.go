package data

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func rests(t interface{ Fatal(...any) }, cfg Config, n, world, done int, d Division) (all [][]int64) {
	for r := range world {
		s, err := NewSampler(cfg, 3, n, world, r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.rest(2, done, d))
	}
	return all
}

// Without a change of ranks, the rest of an epoch is the rest of what
// DistributedSampler gives each rank.
func TestRestIsTheDistributedSamplers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.IntRange(1, 9).Draw(t, "world")
		n := rapid.IntRange(2*world, 100).Draw(t, "n")
		micro := rapid.IntRange(1, 5).Draw(t, "micro")
		cfg := Config{Shuffle: rapid.Bool().Draw(t, "shuffle"), DropLast: rapid.Bool().Draw(t, "drop")}
		if !cfg.DropLast && rapid.Bool().Draw(t, "whole") {
			cfg.Pad = PadNone
		}
		steps := rapid.IntRange(0, n/(world*micro)).Draw(t, "steps")
		var want [][]int64
		for _, all := range shardsOf(t, cfg, n, world) {
			want = append(want, all[min(len(all), steps*micro):])
		}
		if d := cmp.Diff(want, rests(t, cfg, n, world, steps*micro*world, Division{Step: micro * world}), cmp.Comparer(slices.Equal[[]int64])); d != "" {
			t.Fatal(d)
		}
	})
}

func shardsOf(t *rapid.T, cfg Config, n, world int) (all [][]int64) {
	for r := range world {
		s, err := NewSampler(cfg, 3, n, world, r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.Epoch(2))
	}
	return all
}

// Whatever worlds an epoch passes through, each of its samples comes exactly once, and
// each step takes the next ones of the order, if the global batch stays.
func TestEverySampleOnceInAnyWorlds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, step := rapid.IntRange(9, 200).Draw(t, "n"), rapid.IntRange(9, 50).Draw(t, "step")
		cfg := Config{Shuffle: true, Pad: PadNone}
		one, err := NewSampler(cfg, 3, n, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		order, done := one.Order(2), 0
		for done < n {
			world := rapid.IntRange(1, 9).Draw(t, "world")
			next := min(n, done+step)
			d := Division{Step: step}
			if rapid.Bool().Draw(t, "weighted") {
				d = drawWeighted(t, d, world)
			}
			var got []int64
			for r, rest := range rests(t, cfg, n, world, done, d) {
				got = append(got, rest[:d.Share(next-done, world, r)]...)
			}
			want := slices.Sorted(slices.Values(order[done:next]))
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("after %d samples %d ranks take %v, want %v", done, world, got, want)
			}
			done = next
		}
	})
}

// Batches of a share keep its ends, and have the sizes that Shapes says.
func TestBatchesOfShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.IntRange(1, 5).Draw(t, "world")
		d := Division{Step: rapid.IntRange(world, 40).Draw(t, "step"), Micro: rapid.IntRange(1, 9).Draw(t, "micro")}
		n := rapid.IntRange(world, 100).Draw(t, "n")
		rank := rapid.IntRange(0, world-1).Draw(t, "rank")
		if rapid.Bool().Draw(t, "weighted") {
			d = drawWeighted(t, d, world)
		}
		s, err := NewSampler(Config{Pad: PadNone}, 1, n, world, rank)
		if err != nil {
			t.Fatal(err)
		}
		src := &samples{mem: [3][]int64{}}
		f := NewFeeder(NewLoader(src, 3, d.Rows(rank), 1), s, d, nil)
		if err := f.Start(0, 0); err != nil {
			t.Fatal(err)
		}
		shapes := d.Shapes(n, world, rank)
		for done := 0; done < n; done += d.Step {
			st, want := f.Step(), d.Share(min(d.Step, n-done), world, rank)
			if st.Own != divideUp(want, d.Rows(rank)) || d.Rows(rank) > d.Micro || st.Passes < st.Own || st.Mean != float64(min(d.Step, n-done))/float64(world) {
				t.Fatalf("step from %d: %+v", done, st)
			}
			if rows := f.Rows(st.Own); rows != want {
				t.Fatalf("a step has %d rows, want %d", rows, want)
			}
			for range st.Own {
				b, _, err := f.Next(0)
				if err != nil || !slices.Contains(shapes, b.Rows) {
					t.Fatalf("%d rows, %v, shapes %v", b.Rows, err, shapes)
				}
				want -= b.Rows
			}
			if want != 0 {
				t.Fatalf("a step's share lacks %d samples", want)
			}
		}
		if st := f.Step(); st.Passes != 0 {
			t.Fatalf("after the end: %+v", st)
		}
	})
}

// drawWeighted divides the step by random weights, so that every rank has a sample of a whole step.
func drawWeighted(t *rapid.T, d Division, world int) Division {
	weights := rapid.SliceOfN(rapid.IntRange(1, 5), world, world).Draw(t, "weights")
	w := d
	w.Accumulate = 1
	if w = w.Weighted(weights, d.Micro); slices.Min(w.Shares.Whole()) == 0 {
		return d
	}
	return w
}

// Shares are exact where the weights divide the step, within one sample of the proportion for two
// ranks, equal weights give the usual order, and micro-batches are as few as the limit allows.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		weights     []int
		step, limit int
		want        []int
		micro, most int
	}{
		{[]int{3, 1}, 64, 0, []int{48, 16}, 48, 1},
		{[]int{3, 1}, 64, 32, []int{48, 16}, 32, 2},
		{[]int{3, 1, 1}, 10, 4, []int{6, 2, 2}, 4, 2},
		{[]int{2, 1}, 10, 0, []int{7, 3}, 7, 1},
	} {
		d := Division{Step: c.step, Accumulate: 1}.Weighted(c.weights, c.limit)
		if !slices.Equal(d.Shares.Whole(), c.want) || d.Micro != c.micro || d.Accumulate != c.most {
			t.Errorf("%v of %d: %v in micro-batches of %d, at most %d", c.weights, c.step, d.Shares.Whole(), d.Micro, d.Accumulate)
		}
	}
	for i, r := range newShares([]int{2, 2, 2}, 9).owner {
		if int(r) != i%3 {
			t.Errorf("with equal weights, position %d belongs to rank %d", i, r)
		}
	}
	if d := (Division{Step: 33, Accumulate: 1}).Weighted([]int{32, 1}, 16); d.Rows(0) != 16 || d.Rows(1) != 1 {
		t.Errorf("micro-batches of %d and %d samples", d.Rows(0), d.Rows(1))
	}
}
