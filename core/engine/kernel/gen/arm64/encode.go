package arm64

import (
	"fmt"
	"strings"
)

// encoding is the machine code of a NEON instruction (Arm, "A-profile Architecture
// Reference Manual", C7.2), whose registers are 5 bits each.
type encoding struct {
	bits   uint32
	fields []int // at which bit each register's number stands
}

func (e *encoding) word(regs []Reg, number func(Reg) int) uint32 {
	w := e.bits
	for i, at := range e.fields {
		w |= uint32(number(regs[i])) << at
	}
	return w
}

// Where registers stand: the destination, and up to two sources.
var registerFields = []int{0, 5, 16}

// op is a NEON instruction: its encoding, the arrangements of its destination and
// sources, and Go's name if Go's assembler knows it with a single arrangement.
type op struct {
	bits uint32
	arr  string // of the destination; and of the sources after a slash, if another
	goes string
}

// ops are the instructions whose operands are registers alone, by mnemonic and
// arrangement.
var ops = map[string]op{
	"fadd 4s": {0x4e20d400, "4s", ""}, "fadd 2d": {0x4e60d400, "2d", ""},
	"fsub 4s": {0x4ea0d400, "4s", ""}, "fsub 2d": {0x4ee0d400, "2d", ""},
	"fmul 4s": {0x6e20dc00, "4s", ""}, "fmul 2d": {0x6e60dc00, "2d", ""},
	"fdiv 4s": {0x6e20fc00, "4s", ""}, "fdiv 2d": {0x6e60fc00, "2d", ""},
	"fmla 4s": {0x4e20cc00, "4s", "VFMLA"}, "fmla 2d": {0x4e60cc00, "2d", "VFMLA"},
	"fmls 4s": {0x4ea0cc00, "4s", "VFMLS"}, "fmls 2d": {0x4ee0cc00, "2d", "VFMLS"},
	"fsqrt 4s": {0x6ea1f800, "4s", ""}, "fsqrt 2d": {0x6ee1f800, "2d", ""},
	"fcmgt 4s": {0x6ea0e400, "4s", ""}, "fcmgt 2d": {0x6ee0e400, "2d", ""},
	"fcmge 4s": {0x6e20e400, "4s", ""}, "fcmge 2d": {0x6e60e400, "2d", ""},
	"fcmeq 4s": {0x4e20e400, "4s", ""}, "fcmeq 2d": {0x4e60e400, "2d", ""},
	"frintn 4s": {0x4e218800, "4s", ""}, "frintn 2d": {0x4e618800, "2d", ""},
	"scvtf 4s": {0x4e21d800, "4s", ""}, "fcvtns 4s": {0x4e21a800, "4s", ""}, "fcvtzs 4s": {0x4ea1b800, "4s", ""},

	"add 4s": {0x4ea08400, "4s", "VADD"}, "add 2d": {0x4ee08400, "2d", "VADD"},
	"sub 4s": {0x6ea08400, "4s", "VSUB"}, "sub 2d": {0x6ee08400, "2d", "VSUB"},
	"mul 4s": {0x4ea09c00, "4s", ""}, "mla 4s": {0x4ea09400, "4s", ""}, "neg 4s": {0x6ea0b800, "4s", ""},
	"smax 4s": {0x4ea06400, "4s", ""}, "smin 4s": {0x4ea06c00, "4s", ""},
	"cmeq 4s": {0x6ea08c00, "4s", "VCMEQ"}, "cmgt 4s": {0x4ea03400, "4s", ""}, "cmgt 2d": {0x4ee03400, "2d", ""},
	"ushl 4s": {0x6ea04400, "4s", ""}, "umull 2d": {0x2ea0c000, "2d/2s", ""},

	"and 16b": {0x4e201c00, "16b", "VAND"}, "orr 16b": {0x4ea01c00, "16b", "VORR"}, "eor 16b": {0x6e201c00, "16b", "VEOR"},
	"bic 16b": {0x4e601c00, "16b", ""}, "bsl 16b": {0x6e601c00, "16b", "VBSL"}, "mvn 16b": {0x6e205800, "16b", ""},

	"zip1 4s": {0x4e803800, "4s", "VZIP1"}, "zip2 4s": {0x4e807800, "4s", "VZIP2"},
	"zip1 2d": {0x4ec03800, "2d", "VZIP1"}, "zip2 2d": {0x4ec07800, "2d", "VZIP2"},
	"uzp1 4s": {0x4e801800, "4s", "VUZP1"}, "uzp2 4s": {0x4e805800, "4s", "VUZP2"},
	"rev64 4s": {0x4ea00800, "4s", "VREV64"},

	"fcvtl 4s": {0x0e217800, "4s/4h", ""}, "fcvtl2 4s": {0x4e217800, "4s/8h", ""},
	"fcvtl 2d": {0x0e617800, "2d/2s", ""}, "fcvtl2 2d": {0x4e617800, "2d/4s", ""},
	"fcvtn 4h": {0x0e216800, "4h/4s", ""}, "fcvtn2 8h": {0x4e216800, "8h/4s", ""},
	"fcvtn 2s": {0x0e616800, "2s/2d", ""}, "fcvtn2 4s": {0x4e616800, "4s/2d", ""},
	"ushll 8h": {0x2f08a400, "8h/8b/#0", ""}, "ushll 4s": {0x2f10a400, "4s/4h/#0", ""}, "ushll2 4s": {0x6f10a400, "4s/8h/#0", ""},
	"sshll 2d": {0x0f20a400, "2d/2s/#0", ""}, "sshll2 2d": {0x4f20a400, "2d/4s/#0", ""},
	"sqxtun 4h": {0x2e612800, "4h/4s", ""}, "sqxtun2 8h": {0x6e612800, "8h/4s", ""},
	"sqxtun 8b": {0x2e212800, "8b/8h", ""}, "sqxtun2 16b": {0x6e212800, "16b/8h", ""},
	"xtn 2s": {0x0ea12800, "2s/2d", ""},

	"bfdot 4s": {0x6e40fc00, "4s/8h", ""}, // of FEAT_BF16
}

// neon emits an instruction of ops; the first register is the destination, which some
// read too.
func (c *code) neon(name string, regs ...Reg) {
	o, ok := ops[name]
	if !ok {
		panic("arm64: no encoding of " + name)
	}
	mnemonic, _, _ := strings.Cut(name, " ")
	i := inst{regs: regs, defs: regs[:1], uses: regs[1:], falls: true}
	if readsDestination[mnemonic] {
		i.uses = regs
	}
	if o.goes != "" {
		i.text = goSpelling(o, len(regs))
	} else {
		i.text = armSpelling(mnemonic, o, len(regs))
		i.encoding = &encoding{o.bits, registerFields[:len(regs)]}
	}
	c.add(i)
}

// readsDestination are the instructions that keep or add to what is in the destination.
var readsDestination = map[string]bool{
	"fmla": true, "fmls": true, "mla": true, "bfdot": true, "bsl": true, "fcvtn2": true, "sqxtun2": true,
}

// goSpelling has the sources first, in reverse.
func goSpelling(o op, n int) string {
	arr := goArrangement[o.arr]
	var list []string
	for i := n - 1; i >= 0; i-- {
		list = append(list, fmt.Sprintf("V{%d}.%s", i, arr))
	}
	return o.goes + "\t" + strings.Join(list, ", ")
}

var goArrangement = map[string]string{"4s": "S4", "2d": "D2", "16b": "B16"}

func armSpelling(mnemonic string, o op, n int) string {
	arr := strings.Split(o.arr, "/")
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("v{%d}.%s", i, arr[min(i, 1, len(arr)-1)]))
	}
	if len(arr) == 3 {
		list = append(list, arr[2])
	}
	return mnemonic + " " + strings.Join(list, ", ")
}

// word emits an instruction that is not in ops.
func (c *code) word(bits uint32, text string, regs ...Reg) {
	c.add(inst{text: text, regs: regs, defs: regs[:1], uses: regs[1:], falls: true, encoding: &encoding{bits, registerFields[:len(regs)]}})
}

// byElement emits d = d ± n·m[0], or n·m[0], of float32; bfdot of pairs of bfloat16.
func (c *code) byElement(mnemonic string, d, n, m Reg) {
	bits := map[string]uint32{"fmla": 0x4f801000, "fmls": 0x4f805000, "fmul": 0x4f809000, "bfdot": 0x4f40f000}[mnemonic]
	operands := " v{0}.4s, v{1}.4s, v{2}.s[0]"
	if mnemonic == "bfdot" {
		operands = " v{0}.4s, v{1}.8h, v{2}.2h[0]"
	}
	i := inst{text: mnemonic + operands, regs: []Reg{d, n, m}, defs: []Reg{d}, uses: []Reg{n, m}, falls: true, encoding: &encoding{bits, registerFields}}
	if mnemonic != "fmul" {
		i.uses = i.regs
	}
	c.add(i)
}

// shift emits a shift of each lane by a constant; mnemonic is shl, ushr or sshr, and
// width the bits of a lane.
func (c *code) shift(mnemonic string, width, n int, d, from Reg) {
	bits := map[string]uint32{"shl": 0x4f005400, "ushr": 0x6f000400, "sshr": 0x4f000400}[mnemonic]
	imm := width + n
	if mnemonic != "shl" {
		if n == 0 {
			c.copy(d, from)
			return
		}
		imm = 2*width - n
	}
	arr := map[int]string{32: "4s", 64: "2d"}[width]
	c.word(bits|uint32(imm)<<16, fmt.Sprintf("%s v{0}.%s, v{1}.%s, #%d", mnemonic, arr, arr, n), d, from)
}

// zero clears a register.
func (c *code) zero(d Reg) {
	c.set("VMOVI\t$0, V{0}.B16", d)
}

// half exchanges, or joins, halves: the upper one of n and the lower one of m.
func (c *code) half(d, n, m Reg) { c.set("VEXT\t$8, V{2}.B16, V{1}.B16, V{0}.B16", d, n, m) }

// spread copies an element to all: 's' of 32 bits, 'd' of 64.
func (c *code) spread(size byte, element int, d, from Reg) {
	arr := map[byte]string{'s': "S4", 'd': "D2"}[size]
	c.set(fmt.Sprintf("VDUP\tV{1}.%c[%d], V{0}.%s", size-'a'+'A', element, arr), d, from)
}

// insert copies an element of 32 or 64 bits, and keeps the others.
func (c *code) insert(size byte, to int, d Reg, element int, from Reg) {
	c.change(fmt.Sprintf("VMOV\tV{1}.%c[%d], V{0}.%c[%d]", size-'a'+'A', element, size-'a'+'A', to), d, from)
}
