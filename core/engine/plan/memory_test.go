package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/trainctl/trainctl/core/tensor"
)

// Blocks that live at the same time never share bytes, every offset is aligned,
// and the arena is no smaller than the busiest moment and no larger than the sum.
func TestArrangeKeepsLiveBlocksApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, total := drawBlocks(t)
		size := arrangeBlocks(m).size
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

func drawBlocks(t *rapid.T) (m map[int]*block, total int) {
	m = map[int]*block{}
	for i := range rapid.IntRange(1, 30).Draw(t, "blocks") {
		first := rapid.IntRange(0, 20).Draw(t, "first")
		b := &block{root: 3 * i, first: first, last: first + rapid.IntRange(0, 10).Draw(t, "life"), size: align * rapid.IntRange(0, 8).Draw(t, "size")}
		m[b.root], total = b, total+b.size
	}
	return m, total
}

func arrangeBlocks(m map[int]*block) arena {
	l := &lowering{vals: make([]val, 3*len(m))}
	return l.arrange(m)
}

// Workspaces and values that live at the same time never share bytes, however they are
// packed, and packing takes no more than placing workspaces beside the values.
func TestPackKeepsWorkspacesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := drawBlocks(t)
		p := &Plan{steps: make([]Step, rapid.IntRange(31, 80).Draw(t, "steps")), arena: arrangeBlocks(m)}
		p.arena.fixed = rapid.Bool().Draw(t, "fixed")
		p.stats = Operand{Place: PlaceState}
		need, beside := make([]int, len(p.steps)), p.arena.size
		for i := range need {
			need[i] = rapid.IntRange(0, 500).Draw(t, "need")
			whole := tensor.RoundUp(need[i], align)
			beside = max(beside, p.arena.free(i, i, whole)+whole)
		}
		for i := range p.steps { // every block that has bytes is an operand of the steps in which it lives
			for _, b := range p.arena.placed {
				if b.first <= i && i <= b.last && b.size > 0 {
					p.steps[i].In = append(p.steps[i].In, Operand{Place: PlaceArena, Offset: b.offset, Spec: tensor.Spec{DType: tensor.U8, Shape: tensor.Shape{b.size}}, Index: b.root})
				}
			}
		}
		packed := p.Pack(p.steps, func(i int) int { return need[i] })
		if packed.Size > beside {
			t.Fatalf("%d bytes, and %d with the values where they were", packed.Size, beside)
		}
		at := map[int]int{}
		for i, s := range packed.Steps {
			live := append(slices.Clone(s.In), Operand{Offset: packed.Work[i], Spec: tensor.Spec{DType: tensor.U8, Shape: tensor.Shape{need[i]}}, Index: -1 - i})
			for j, a := range live {
				if first, known := at[a.Index]; known && first != a.Offset {
					t.Fatalf("block %d moves from %d to %d", a.Index, first, a.Offset)
				}
				at[a.Index] = a.Offset
				if a.Offset%align != 0 || a.Offset+a.Spec.Bytes() > packed.Size {
					t.Fatalf("step %d: %+v in %d bytes", i, a, packed.Size)
				}
				for _, b := range live[:j] {
					if a.Offset < b.Offset+b.Spec.Bytes() && b.Offset < a.Offset+a.Spec.Bytes() {
						t.Fatalf("step %d: %+v and %+v overlap", i, a, b)
					}
				}
			}
		}
	})
}
