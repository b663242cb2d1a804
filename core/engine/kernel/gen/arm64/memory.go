package arm64

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sum is an address that takes an addition: base plus index times 1<<shift.
type sum struct {
	base, index Reg
	shift       int
}

// place is an address that an instruction can have.
type place struct {
	base Reg
	disp int
	name string // of a parameter or a result, which has no base
}

// forget drops the sums that a register is part of, which is about to change.
func (c *code) forget(r Reg) {
	for s := range c.sums {
		if s.base == r || s.index == r {
			delete(c.sums, s)
		}
	}
}

// place computes what an address needs.
func (r *registers) place(m operand.Mem) place {
	switch {
	case m.Symbol.Name != "" && m.Base == reg.FramePointer:
		return place{name: fmt.Sprintf("%s+%d(FP)", m.Symbol.Name, m.Disp)}
	case m.Symbol.Name != "":
		return place{base: r.symbol(m.Symbol.Name), disp: m.Disp}
	case m.Index == nil:
		return place{base: r.int(m.Base), disp: m.Disp}
	}
	s := sum{r.int(m.Base), r.int(m.Index), bits.TrailingZeros8(m.Scale)}
	at, ok := r.sums[s]
	if !ok {
		at = r.reg(general)
		r.set(fmt.Sprintf("ADD\tR{2}<<%d, R{1}, R{0}", s.shift), at, s.base, s.index)
		if !r.toAside {
			r.sums[s] = at
		}
	}
	return place{base: at, disp: m.Disp}
}

// symbol is the address of data, which the function computes once at its start.
func (c *code) symbol(name string) Reg {
	at, ok := c.symbols[name]
	if !ok {
		at = c.reg(general)
		c.symbols[name] = at
	}
	return at
}

// loadSymbols emits the start of a function that reads data.
func (c *code) loadSymbols() {
	body := c.insts
	c.insts = nil
	for _, name := range slices.Sorted(maps.Keys(c.symbols)) {
		c.set("MOVD\t$"+name+"<>(SB), R{0}", c.symbols[name])
	}
	c.insts = append(c.insts, body...)
}

// plus is a place further on.
func (p place) plus(n int) place {
	p.disp += n
	return p
}

// register is a place as an address in a register alone.
func (c *code) register(p place) Reg {
	if p.disp == 0 {
		return p.base
	}
	at := c.reg(general)
	c.set(fmt.Sprintf("ADD\t$%d, R{1}, R{0}", p.disp), at, p.base)
	return at
}

// load and store move a register in one instruction, name such as FMOVQ.
func (c *code) load(name string, to Reg, p place) {
	file := c.file(to)
	if p.name != "" {
		c.set(fmt.Sprintf("%s\t%s, %s{0}", name, p.name, file), to)
		return
	}
	c.set(fmt.Sprintf("%s\t%d(R{1}), %s{0}", name, p.disp, file), to, p.base)
}

func (c *code) store(name string, from Reg, p place) {
	file := c.file(from)
	if p.name != "" {
		c.effect(fmt.Sprintf("%s\t%s{0}, %s", name, file, p.name), from)
		return
	}
	c.effect(fmt.Sprintf("%s\t%s{0}, %d(R{1})", name, file, p.disp), from, p.base)
}

// file is how Go spells a register in a move.
func (c *code) file(r Reg) string {
	if c.classes[r] == vector {
		return "F"
	}
	return "R"
}

// The reach of the instructions that move two vectors of 16 bytes.
const (
	pairReach = 1024 - 16
	oneReach  = 16 * 4095
)

// near makes an address one that moves of 16 bytes reach.
func (c *code) near(p place) (q place, paired bool) {
	switch {
	case p.disp%16 == 0 && -1024 <= p.disp && p.disp <= pairReach:
		return p, true
	case p.disp%16 == 0 && 0 <= p.disp && p.disp <= oneReach-16:
		return p, false
	}
	return place{base: c.register(p)}, true
}

// loadVector loads one or two registers from memory.
func (c *code) loadVector(to []Reg, p place) {
	p, paired := c.near(p)
	switch {
	case len(to) == 1:
		c.load("FMOVQ", to[0], p)
	case paired:
		i := inst{text: fmt.Sprintf("FLDPQ\t%d(R{2}), (F{0}, F{1})", p.disp), regs: []Reg{to[0], to[1], p.base}, defs: to, uses: []Reg{p.base}, falls: true}
		c.add(i)
	default:
		c.load("FMOVQ", to[0], p)
		c.load("FMOVQ", to[1], p.plus(16))
	}
}

func (c *code) storeVector(from []Reg, p place) {
	p, paired := c.near(p)
	switch {
	case len(from) == 1:
		c.store("FMOVQ", from[0], p)
	case paired:
		c.effect(fmt.Sprintf("FSTPQ\t(F{0}, F{1}), %d(R{2})", p.disp), from[0], from[1], p.base)
	default:
		c.store("FMOVQ", from[0], p)
		c.store("FMOVQ", from[1], p.plus(16))
	}
}

// source is the registers of an operand: as many as count, loaded if it is in memory.
func (r *registers) source(o operand.Op, count int) []Reg {
	m, ok := o.(operand.Mem)
	if !ok {
		return r.halves(o)[:count]
	}
	v := make([]Reg, count)
	for i := range v {
		v[i] = r.temp()
	}
	if count == 2 && r.data[m.Symbol.Name].repeats(m.Disp) {
		r.loadVector(v[:1], r.place(m))
		return []Reg{v[0], v[0]}
	}
	r.loadVector(v, r.place(m))
	return v
}
