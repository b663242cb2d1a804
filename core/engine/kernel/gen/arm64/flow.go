package arm64

import "slices"

// block is a run of instructions with one way in and one way out.
type block struct {
	from, to int // instructions
	next     []int
	in       map[Reg]bool // live before it
}

// blocks are the parts of a function, and where each goes on.
func blocks(insts []inst) []*block {
	var list []*block
	at := map[string]int{}
	for i := 0; i < len(insts); {
		b := &block{from: i, in: map[Reg]bool{}}
		for ; i < len(insts); i++ {
			if l := insts[i].label; l != "" {
				if i > b.from {
					break
				}
				at[l] = len(list)
			}
			if insts[i].target != "" || !insts[i].falls {
				i++
				break
			}
		}
		b.to = i
		list = append(list, b)
	}
	for n, b := range list {
		last := insts[b.to-1]
		if last.target != "" {
			to, ok := at[last.target]
			if !ok {
				panic("arm64: no label " + last.target)
			}
			b.next = append(b.next, to)
		}
		if last.falls && n+1 < len(list) {
			b.next = append(b.next, n+1)
		}
	}
	return list
}

// live finds out which registers are live before each block.
func live(insts []inst) []*block {
	list := blocks(insts)
	for changed := true; changed; {
		changed = false
		for n := len(list) - 1; n >= 0; n-- {
			b := list[n]
			now := b.out(list)
			for i := b.to - 1; i >= b.from; i-- {
				insts[i].step(now)
			}
			if len(now) != len(b.in) {
				b.in, changed = now, true
			}
		}
	}
	return list
}

// out is what is live behind a block.
func (b *block) out(list []*block) map[Reg]bool {
	now := map[Reg]bool{}
	for _, n := range b.next {
		for r := range list[n].in {
			now[r] = true
		}
	}
	return now
}

// step turns what is live behind an instruction to what is live before it.
func (i *inst) step(now map[Reg]bool) {
	for _, r := range i.defs {
		delete(now, r)
	}
	for _, r := range i.uses {
		now[r] = true
	}
}

// sweep removes instructions whose results are never read, until there are none.
func sweep(insts []inst) []inst {
	for {
		var kept []inst
		list := live(insts)
		for _, b := range list {
			kept = append(kept, b.needed(insts, b.out(list))...)
		}
		if len(kept) == len(insts) {
			return kept
		}
		insts = kept
	}
}

// needed are a block's instructions that do something or set what is live.
func (b *block) needed(insts []inst, now map[Reg]bool) []inst {
	var kept []inst
	for i := b.to - 1; i >= b.from; i-- {
		in := &insts[i]
		if in.keep || in.label != "" || slices.ContainsFunc(in.defs, func(r Reg) bool { return now[r] }) {
			in.step(now)
			kept = append(kept, *in)
		}
	}
	slices.Reverse(kept)
	return kept
}
