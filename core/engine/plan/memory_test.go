package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// Blocks that live at the same time never share bytes, every offset is aligned,
// and the arena is no smaller than the busiest moment and no larger than the sum.
func TestArrangeKeepsLiveBlocksApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "blocks")
		l := &lowering{vals: make([]val, n)}
		m := map[int]*block{}
		total := 0
		for i := range n {
			first := rapid.IntRange(0, 20).Draw(t, "first")
			b := &block{root: i, first: first, last: first + rapid.IntRange(0, 10).Draw(t, "life"), size: align * rapid.IntRange(0, 8).Draw(t, "size")}
			m[i], total = b, total+b.size
		}
		size := l.arrange(m)
		peak := 0
		for step := range 31 {
			live := 0
			for _, b := range m {
				if b.first <= step && step <= b.last {
					live += b.size
				}
			}
			peak = max(peak, live)
		}
		if size < peak || size > total {
			t.Fatalf("arena of %d bytes; busiest moment %d, sum %d", size, peak, total)
		}
		for i, a := range m {
			if a.offset%align != 0 || a.offset+a.size > size {
				t.Fatalf("block %d at %d of %d", i, a.offset, size)
			}
			for j, b := range m {
				if i != j && a.first <= b.last && b.first <= a.last && a.offset < b.offset+b.size && b.offset < a.offset+a.size {
					t.Fatalf("blocks %+v and %+v overlap while both live", *a, *b)
				}
			}
		}
	})
}
