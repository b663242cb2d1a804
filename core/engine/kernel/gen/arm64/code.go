package arm64

import (
	"fmt"
	"strconv"
	"strings"
)

// Reg is a virtual register of the code being built.
type Reg int

// class is the register file that a register is in.
type class byte

const (
	general class = 'R'
	vector  class = 'V'
)

// inst is an instruction, or a label.
type inst struct {
	text     string // with {i} for the number of the i-th of regs
	regs     []Reg
	defs     []Reg
	uses     []Reg
	encoding *encoding // nil if Go's assembler knows the instruction
	label    string    // of a label
	target   string    // of a branch
	falls    bool      // goes on to the next instruction
	isCopy   bool
	keep     bool // does more than define registers
}

// code is a function being built.
type code struct {
	insts   []inst
	classes []class // of each Reg
	aside   []inst  // what stands behind the end: paths seldom taken
	toAside bool
	labels  int
	sums    map[sum]Reg    // addresses that are in a register already
	symbols map[string]Reg // addresses of data
	data    map[string]data
}

func newCode(data map[string]data) *code {
	return &code{sums: map[sum]Reg{}, symbols: map[string]Reg{}, data: data}
}

func (c *code) reg(k class) Reg {
	c.classes = append(c.classes, k)
	return Reg(len(c.classes) - 1)
}

func (c *code) temp() Reg { return c.reg(vector) }

func (c *code) add(i inst) {
	if c.toAside {
		c.aside = append(c.aside, i)
		return
	}
	for _, r := range i.defs {
		c.forget(r)
	}
	c.insts = append(c.insts, i)
}

// behind emits what body does behind the end of the function.
func (c *code) behind(body func()) {
	before := c.toAside
	c.toAside = true
	body()
	c.toAside = before
}

// set emits an instruction that defines its first register from the others.
func (c *code) set(text string, regs ...Reg) {
	c.add(inst{text: text, regs: regs, defs: regs[:1], uses: regs[1:], falls: true})
}

// change emits an instruction that also reads its first register.
func (c *code) change(text string, regs ...Reg) {
	c.add(inst{text: text, regs: regs, defs: regs[:1], uses: regs, falls: true})
}

// effect emits an instruction that defines no register.
func (c *code) effect(text string, regs ...Reg) {
	c.add(inst{text: text, regs: regs, uses: regs, falls: true, keep: true})
}

// flags emits an instruction that sets the flags and its first register.
func (c *code) flags(text string, regs ...Reg) {
	c.add(inst{text: text, regs: regs, defs: regs[:1], uses: regs[1:], falls: true, keep: true})
}

func (c *code) copy(to, from Reg) {
	if to == from {
		return
	}
	text := "MOVD\tR{1}, R{0}"
	if c.classes[to] == vector {
		text = "VMOV\tV{1}.B16, V{0}.B16"
	}
	c.add(inst{text: text, regs: []Reg{to, from}, defs: []Reg{to}, uses: []Reg{from}, falls: true, isCopy: true})
}

// label is a place that branches go to. One that only detours return to leaves what is
// known about registers.
func (c *code) label(name string) {
	clear(c.sums)
	c.detourEnd(name)
}

func (c *code) detourEnd(name string) { c.add(inst{label: name, falls: true}) }

// branch emits a branch to a label; registers are what it tests.
func (c *code) branch(text, label string, conditional bool, regs ...Reg) {
	c.add(inst{text: text + label, regs: regs, uses: regs, target: label, falls: conditional, keep: true})
}

func (c *code) freshLabel() string {
	c.labels++
	return fmt.Sprintf("lanes%d", c.labels)
}

// print is the line of an instruction, given the machine's registers.
func (i *inst) print(number func(Reg) int) string {
	if i.label != "" {
		return i.label + ":"
	}
	text := i.text
	for at, r := range i.regs {
		text = strings.ReplaceAll(text, "{"+strconv.Itoa(at)+"}", strconv.Itoa(number(r)))
	}
	if i.encoding == nil {
		return "\t" + text
	}
	return fmt.Sprintf("\tWORD\t$0x%08x // %s", i.encoding.word(i.regs, number), text)
}
