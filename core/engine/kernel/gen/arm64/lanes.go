package arm64

import (
	"fmt"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A mask is AVX2's, in memory: sign bits for the lanes of two vectors. Behind it stand,
// as int32, the number of lanes that count in each vector, and in each half of one
// (kernel.FirstLanes). A load of a mask loads the number too; masked moves look at that
// alone.
const (
	maskVectors = 64
	maskHalves  = 72
)

// maskOf is the register that masks a move, or nil.
func maskOf(i *ir.Instruction) operand.Op {
	if i.Opcode == "VMASKMOVPS" {
		return i.Operands[1]
	}
	return nil
}

// setCount follows a move from memory into a mask.
func (r *registers) setCount(o operand.Op, m operand.Mem) {
	v := r.value(o)
	if !v.isMask {
		return
	}
	size := int(o.(reg.Register).Size())
	if m.Index != nil || m.Disp%size != 0 || m.Disp < 0 || m.Disp >= maskVectors {
		panic("arm64: a mask is loaded from " + m.Asm())
	}
	at := maskVectors + m.Disp/8
	if size == 16 {
		at = maskHalves + m.Disp/4
	}
	r.load("MOVWU", v.count, place{base: r.int(m.Base), disp: at})
	v.stale = false
}

// setAll follows an instruction that sets all bits of a mask.
func (r *registers) setAll(o operand.Op) {
	v := r.value(o)
	if !v.isMask {
		return
	}
	r.set(fmt.Sprintf("MOVD\t$%d, R{0}", o.(reg.Register).Size()/4), v.count)
	v.stale = false
}

// counted is the number of lanes of a mask.
func (r *registers) counted(o operand.Op) Reg {
	v := r.value(o)
	if v.stale {
		panic("arm64: a mask is neither from memory nor all lanes")
	}
	return v.count
}

// lanes are moves of the first n lanes of a vector: n below 4 for one register, and
// below 8 for two.
type lanes struct {
	*registers
	v    []Reg
	n    Reg
	done string
	quad func(v Reg, p place)
	low  func(name string, v Reg, p place)
	one  func(at Reg, v Reg)
}

// maskedMove is VMASKMOVPS, either way: all lanes at once, or, behind the function, as
// many as there are.
func (r *registers) maskedMove(ops []operand.Op) {
	if m, ok := ops[0].(operand.Mem); ok {
		n := r.counted(ops[1])
		l := &lanes{registers: r, v: r.target(ops[2]), n: n}
		l.quad = func(v Reg, p place) { r.loadVector([]Reg{v}, p) }
		l.low = r.load
		l.one = func(at, v Reg) { r.change("VLD1\t(R{1}), V{0}.S[2]", v, at) }
		l.move(r.place(m), func(p place) { r.loadVector(l.v, p) }, func() {
			for _, v := range l.v {
				r.zero(v)
			}
		})
		return
	}
	l := &lanes{registers: r, v: r.halves(ops[0]), n: r.counted(ops[1])}
	l.quad = func(v Reg, p place) { r.storeVector([]Reg{v}, p) }
	l.low = r.store
	l.one = func(at, v Reg) { r.effect("VST1\tV{0}.S[2], (R{1})", v, at) }
	l.move(r.place(ops[2].(operand.Mem)), func(p place) { r.storeVector(l.v, p) }, func() {})
}

func (l *lanes) move(p place, all func(place), start func()) {
	few := l.freshLabel()
	l.done = few + "done"
	full := 2 // the bit of n that is set when all lanes count
	if len(l.v) == 2 {
		full = 3
	}
	l.branch(fmt.Sprintf("TBZ\t$%d, R{0}, ", full), few, true, l.n)
	all(p)
	l.detourEnd(l.done)
	l.behind(func() {
		l.detourEnd(few)
		start()
		p := place{base: l.register(p)}
		if len(l.v) == 2 {
			l.branch("TBZ\t$2, R{0}, ", few+"low", true, l.n)
			l.quad(l.v[0], p)
			l.rest(few+"high", l.v[1], p.plus(16))
			l.detourEnd(few + "low")
		}
		l.rest(few, l.v[0], p)
	})
}

// rest moves up to three lanes.
func (l *lanes) rest(label string, v Reg, p place) {
	l.branch("TBZ\t$1, R{0}, ", label+"one", true, l.n)
	l.low("FMOVD", v, p)
	l.branch("TBZ\t$0, R{0}, ", l.done, true, l.n)
	l.one(l.register(p.plus(8)), v)
	l.branch("B\t", l.done, false)
	l.detourEnd(label + "one")
	l.branch("TBZ\t$0, R{0}, ", l.done, true, l.n)
	l.low("FMOVS", v, p)
	l.branch("B\t", l.done, false)
}
