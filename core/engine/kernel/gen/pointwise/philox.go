package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// The constants of Philox4x32-10. Known to random/philox.go.
var (
	philoxMultipliers = [2]uint32{0xD2511F53, 0xCD9E8D57}
	philoxKeySteps    = [2]uint32{0x9E3779B9, 0xBB67AE85}
)

const philoxRounds = 10

// dropoutMask works on a block of Philox in every 64 bits of a register, word i of which is in the lower half of
// register i, whatever is in the upper: the products of a round are of those halves. One register has the blocks
// with even numbers, another those with odd ones, so that halves of both together are masks in their order.
func dropoutMask(a *isa.Asm) {
	f := NewFormula(a, "philoxConstants")
	f.Kernel("dropoutMask", "func(mask *uint8, block, stream, seed, keep uint64, evens *uint64, n int)",
		"sets mask to 1 where keep and the word of the stream are 1<<32 or more. evens holds 0, 2 to 14. n is a multiple of 64.")
	mask, n, next := f.Gp("mask"), f.Gp("n"), f.Vec()
	f.spread64("block", next)
	f.VPADDQ(operand.Mem{Base: f.Gp("evens")}, next, next)
	f.Label("loop")
	even, odd := &philox{formula: f}, &philox{formula: f}
	key := f.Vecs(2)
	f.spread64("seed", key[0])
	f.VPSRLQ(operand.U8(32), key[0], key[1])
	f.Interleave(func() { even.start(next) }, func() { odd.start(f.result(f.add64, next, f.pair(1, 0))) })
	for round := range philoxRounds {
		f.Interleave(func() { even.round(key) }, func() { odd.round(key) })
		for i, k := range key {
			if round < philoxRounds-1 {
				f.AddInt(f.bits(philoxKeySteps[i]), k, k)
			}
		}
	}
	f.VPADDQ(f.pair(uint32(f.Lanes), 0), next, next)
	keep := f.Vec()
	f.spread64("keep", keep)
	lo, hi := even.masks(keep), odd.masks(keep)
	f.VPSRLQ(operand.U8(32), lo, lo)
	f.Or(lo, hi, hi)
	f.Move(hi, operand.Mem{Base: mask})
	f.Advance(operand.U8(4*f.Lanes), mask)
	f.SUBQ(operand.U8(4*f.Lanes), n)
	f.JG(operand.LabelRef("loop"))
	f.Ret()
}

// philox is the words of a register's blocks.
type philox struct {
	*formula
	word [4]reg.VecVirtual
}

// start takes the counters: the numbers of the blocks, and the stream.
func (p *philox) start(blocks reg.VecVirtual) {
	for i := range p.word {
		p.word[i] = p.Vec()
	}
	p.Copy(blocks, p.word[0])
	p.VPSRLQ(operand.U8(32), blocks, p.word[1])
	p.spread64("stream", p.word[2])
	p.VPSRLQ(operand.U8(32), p.word[2], p.word[3])
}

func (p *philox) round(key []reg.VecVirtual) {
	w := p.word
	first, third := p.result(p.mul32, w[0], p.bits(philoxMultipliers[0])), p.result(p.mul32, w[2], p.bits(philoxMultipliers[1]))
	p.VPSRLQ(operand.U8(32), third, w[0])
	p.VPSRLQ(operand.U8(32), first, w[2])
	p.xor3(w[1], key[0], w[0])
	p.xor3(w[3], key[1], w[2])
	p.word = [4]reg.VecVirtual{w[0], third, w[2], first}
}

// masks are in the upper half of each block: a byte for each word.
func (p *philox) masks(keep reg.VecVirtual) reg.VecVirtual {
	var all reg.VecVirtual
	for i := 3; i >= 0; i-- {
		w := p.word[i]
		p.AndInt(p.pair(1<<32-1, 0), w, w)
		p.VPADDQ(keep, w, w)
		p.AndInt(p.pair(0, 1), w, w)
		if all != nil {
			p.VPSLLQ(operand.U8(8), all, all)
			p.Or(all, w, w)
		}
		all = w
	}
	return all
}

func (f *formula) mul32(x, y, dst operand.Op) { f.VPMULUDQ(x, y, dst) }
func (f *formula) add64(x, y, dst operand.Op) { f.VPADDQ(x, y, dst) }

// xor3 sets z to x ^ y ^ z.
func (f *formula) xor3(x, y, z reg.VecVirtual) {
	if f.Lanes == 16 {
		const odd = 0x96 // of three bits
		f.VPTERNLOGD(operand.U8(odd), x, y, z)
		return
	}
	f.Xor(x, z, z)
	f.Xor(y, z, z)
}

// spread64 copies a parameter of 64 bits to a whole register.
func (f *formula) spread64(param string, to reg.VecVirtual) {
	p, err := f.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	f.VPBROADCASTQ(p.Addr, to)
}
