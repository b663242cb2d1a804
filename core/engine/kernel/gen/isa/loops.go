package isa

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// CountDown decrements n, and jumps to the label until it is 0.
func (a *Asm) CountDown(n operand.Op, label string) {
	a.DECQ(n)
	a.JNZ(operand.LabelRef(label))
}

// Advance adds step to every pointer.
func (a *Asm) Advance(step operand.Op, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		a.ADDQ(step, p)
	}
}

// Blocks emits the loop of an elementwise kernel over n float32, a multiple of 16: body
// runs once per register, with the byte offset of the block in off.
func (a *Asm) Blocks(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	a.blocksOf(2, n, body)
}

// LongBlocks is Blocks for long chains of operations, of which those of two vectors are under way at a time.
func (a *Asm) LongBlocks(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	off, last, two := a.GP64(), a.GP64(), operand.U32(uint64(8*a.Lanes))
	a.XORQ(off, off)
	a.SHLQ(operand.U8(2), n)
	a.MOVQ(n, last)
	a.SUBQ(two, last)
	a.Label("loop")
	a.CMPQ(off, last)
	a.JG(operand.LabelRef("last"))
	a.Interleave(func() { body(off, 0) }, func() { body(off, 4*a.Lanes) })
	a.ADDQ(two, off)
	a.JMP(operand.LabelRef("loop"))
	a.Label("last")
	if a.Lanes == 16 {
		a.CMPQ(off, n)
		a.JGE(operand.LabelRef("done"))
		body(off, 0)
		a.Label("done")
	}
}

// HalfBlocks is blocks for 16-bit elements.
func (a *Asm) HalfBlocks(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	a.blocksOf(1, n, body)
}

// Bytes is blocks for bytes.
func (a *Asm) Bytes(n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	a.blocksOf(0, n, body)
}

// blocksOf is blocks for elements of 1<<shift bytes.
func (a *Asm) blocksOf(shift int, n reg.GPVirtual, body func(off reg.GPVirtual, disp int)) {
	off := a.GP64()
	a.XORQ(off, off)
	if shift > 0 {
		a.SHLQ(operand.U8(shift), n)
	}
	a.Label("loop")
	a.CMPQ(off, n)
	a.JGE(operand.LabelRef("done"))
	for d := 0; d < 16; d += a.Lanes {
		body(off, d<<shift)
	}
	a.ADDQ(operand.U8(16<<shift), off)
	a.JMP(operand.LabelRef("loop"))
	a.Label("done")
}

// PowerOfTwo sets v to 1<<n, which takes CX.
func (a *Asm) PowerOfTwo(n, v reg.GPVirtual) {
	a.MOVQ(operand.U32(1), v)
	a.MOVQ(n, reg.RCX)
	a.SHLQ(reg.CL, v)
}

// blockMask is a mask register for blocks of up to size elements: all of them, or those
// left in the last block.
type blockMask struct {
	a    *Asm
	size int
	bits reg.GPVirtual
	k    reg.Register
	load func(bits, k operand.Op)
}

// BlockMask starts with a mask of all of a block's elements, which load moves to a mask register.
func (a *Asm) BlockMask(size int, load func(bits, k operand.Op)) blockMask {
	m := blockMask{a, size, a.GP64(), a.K(), load}
	a.MOVQ(operand.U32(uint64(1)<<size-1), m.bits)
	load(m.bits.As32(), m.k)
	return m
}

// Loop runs body for every block of n elements, with the mask of the block, and moves
// the pointers on by one register.
func (m blockMask) Loop(n reg.GPVirtual, pointers []reg.GPVirtual, body func(k reg.Register)) {
	a := m.a
	a.Label("loop")
	a.CMPQ(n, operand.U8(m.size))
	a.JGE(operand.LabelRef("body"))
	a.PowerOfTwo(n, m.bits)
	a.DECQ(m.bits)
	m.load(m.bits.As32(), m.k)
	a.Label("body")
	body(m.k)
	a.Advance(operand.U8(64), pointers...)
	a.SUBQ(operand.U8(m.size), n)
	a.JG(operand.LabelRef("loop"))
}

// OverPlane calls body for every vector, in fours and then one by one. Lanes
// beyond the end hold rest; there are none if tail is 0. What lies ahead, if that is given, is
// prefetched.
func (a *Asm) OverPlane(x, ahead reg.GPVirtual, label string, clear []reg.VecVirtual, body func(v reg.VecVirtual, acc int), rest reg.VecVirtual) {
	for _, v := range clear {
		a.Zero(v)
	}
	p, n := a.GP64(), a.Gp("vectors")
	a.MOVQ(x, p)
	v := a.Vecs(4)
	prefetch := func(disp int) {
		if ahead != nil && disp%64 == 0 {
			a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1, Disp: disp})
		}
	}
	a.Label(label + "4")
	a.SUBQ(operand.U8(4), n)
	a.JL(operand.LabelRef(label + "Ones"))
	for i := range 4 {
		prefetch(4 * i * a.Lanes)
		a.Move(operand.Mem{Base: p, Disp: 4 * i * a.Lanes}, v[i])
		body(v[i], i)
	}
	a.ADDQ(operand.U32(16*a.Lanes), p)
	a.JMP(operand.LabelRef(label + "4"))
	a.Label(label + "Ones")
	a.ADDQ(operand.U8(4), n)
	a.Label(label + "1")
	a.DECQ(n)
	a.JL(operand.LabelRef(label + "Tail"))
	prefetch(0)
	a.Move(operand.Mem{Base: p}, v[0])
	body(v[0], 0)
	a.ADDQ(operand.U8(4*a.Lanes), p)
	a.JMP(operand.LabelRef(label + "1"))
	a.Label(label + "Tail")
	tail := a.Gp("tail")
	a.TESTQ(tail, tail)
	a.JZ(operand.LabelRef(label + "Done"))
	a.LoadOr(operand.Mem{Base: p}, tail, rest, v[0])
	body(v[0], 1)
	a.Label(label + "Done")
}

// EachRow runs body for each of the parameter rows, and moves the pointers on by the parameter bytes.
func (a *Asm) EachRow(body func(), pointers ...reg.GPVirtual) {
	rows := a.Gp("rows")
	a.Label("rows")
	body()
	a.Advance(a.Gp("bytes"), pointers...)
	a.CountDown(rows, "rows")
	a.Ret()
}

// rowBody works on a vector of a row, to which p points.
type rowBody = func(p []reg.GPVirtual, load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem))

// Row runs body for every vector of a row, in fours and then one by one, and for the lanes of tail if there is a rest, with pointers to it.
func (a *Asm) Row(label string, pointers []reg.GPVirtual, body rowBody) {
	a.row(label, pointers, nil, 1, body)
}

// LongRow is Row for long chains of operations, with lanes beyond the end loaded from fill.
func (a *Asm) LongRow(label string, pointers []reg.GPVirtual, fill operand.Op, body rowBody) {
	a.row(label, pointers, fill, a.Lanes/4, body)
}

// row interleaves so many vectors.
func (a *Asm) row(label string, pointers []reg.GPVirtual, fill operand.Op, interleaved int, body rowBody) {
	p, n := make([]reg.GPVirtual, len(pointers)), a.Gp("vectors")
	for i, from := range pointers {
		p[i] = a.GP64()
		a.MOVQ(from, p[i])
	}
	whole := func(i int) {
		at := func(m operand.Mem) operand.Mem { return m.Offset(4 * a.Lanes * i) }
		body(p, func(m operand.Mem, v reg.VecVirtual) { a.Move(at(m), v) }, func(v reg.VecVirtual, m operand.Mem) { a.Move(v, at(m)) })
	}
	const group = 4
	a.Label(label + "Group")
	a.SUBQ(operand.U8(group), n)
	a.JL(operand.LabelRef(label + "Ones"))
	for first := 0; first < group; first += interleaved {
		vectors := make([]func(), interleaved)
		for i := range vectors {
			vectors[i] = func() { whole(first + i) }
		}
		a.Interleave(vectors...)
	}
	a.Advance(operand.U32(4*a.Lanes*group), p...)
	a.JMP(operand.LabelRef(label + "Group"))
	a.Label(label + "Ones")
	a.ADDQ(operand.U8(group), n)
	a.Label(label)
	a.DECQ(n)
	a.JL(operand.LabelRef(label + "Tail"))
	whole(0)
	a.Advance(operand.U8(4*a.Lanes), p...)
	a.JMP(operand.LabelRef(label))
	a.Label(label + "Tail")
	rest := a.Gp("rest")
	a.TESTQ(rest, rest)
	a.JZ(operand.LabelRef(label + "Done"))
	tail := a.Gp("tail")
	load, store := a.lanesOf(tail)
	if fill != nil {
		load = func(m operand.Mem, v reg.VecVirtual) {
			others := a.Vec()
			a.Move(fill, others)
			a.LoadOr(m, tail, others, v)
		}
	}
	body(p, load, store)
	a.Label(label + "Done")
}

// EachPlane is EachRow of rows that may be small planes: those of 16 elements, such as images of 4×4, have a loop of their
// own. start comes before each.
func (a *Asm) EachPlane(start func(), pointers []reg.GPVirtual, body rowBody) {
	a.UnlessBlocks("planes")
	rows := a.Gp("rows")
	a.Label("blocks")
	start()
	a.Block(pointers, body)
	a.Advance(a.Gp("bytes"), pointers...)
	a.CountDown(rows, "blocks")
	a.Ret()
	a.Label("planes")
	a.EachRow(func() {
		start()
		a.Row("row", pointers, body)
	}, pointers...)
}

// UnlessBlocks jumps to the label if rows have other than 16 elements.
func (a *Asm) UnlessBlocks(label string) {
	n, rest := a.Gp("vectors"), a.Gp("rest")
	a.CMPQ(n, operand.U8(16/a.Lanes))
	a.JNE(operand.LabelRef(label))
	a.TESTQ(rest, rest)
	a.JNZ(operand.LabelRef(label))
}

// Block is Row of 16 elements.
func (a *Asm) Block(pointers []reg.GPVirtual, body rowBody) {
	for i := range 16 / a.Lanes {
		at := func(m operand.Mem) operand.Mem { return m.Offset(4 * a.Lanes * i) }
		body(pointers, func(m operand.Mem, v reg.VecVirtual) { a.Move(at(m), v) }, func(v reg.VecVirtual, m operand.Mem) { a.Move(v, at(m)) })
	}
}

// RowFactors copies a float32 from each of the pointers to every lane, and moves them on.
func (a *Asm) RowFactors(pointers []reg.GPVirtual) []reg.VecVirtual {
	v := a.Vecs(len(pointers))
	for i, p := range pointers {
		a.Spread(operand.Mem{Base: p}, v[i])
	}
	a.Advance(operand.U8(4), pointers...)
	return v
}

// StoreOne stores the first lane of v, and moves p on.
func (a *Asm) StoreOne(v reg.VecVirtual, p reg.GPVirtual) {
	a.storeFirst(v, operand.Mem{Base: p})
	a.Advance(operand.U8(4), p)
}

// Rows are rows that are worked on together: four, so that what their sums decide, a division among it, takes the time of
// one row's, or a single one. Where fewer than four are left the last stands for those that are missing.
type Rows struct {
	a    *Asm
	Row  []reg.GPVirtual
	left reg.GPVirtual
	half bool // of bfloat16, which is widened where it is loaded, and rounded where it is stored

	loadColumn  func(m operand.Mem, v reg.VecVirtual) // of the vector that Along is at
	storeColumn func(v reg.VecVirtual, m operand.Mem)
}

// EachRows runs body for every n of the parameter rows, of bytes, from the pointer on.
func (a *Asm) EachRows(n int, first string, body func(r *Rows)) { a.eachRows(n, first, false, body) }

// EachHalfRows is EachRows of rows of bfloat16, for AVX512-BF16.
func (a *Asm) EachHalfRows(n int, first string, body func(r *Rows)) { a.eachRows(n, first, true, body) }

func (a *Asm) eachRows(n int, first string, half bool, body func(r *Rows)) {
	r := &Rows{a: a, Row: make([]reg.GPVirtual, n), left: a.Gp("rows"), half: half}
	r.Row[0] = a.Gp(first)
	a.Label("rows")
	bytes := a.Gp("bytes")
	for i := 1; i < n; i++ {
		next := a.GP64()
		r.Row[i] = a.GP64()
		a.MOVQ(r.Row[i-1], r.Row[i])
		a.LEAQ(operand.Mem{Base: r.Row[i-1], Index: bytes, Scale: 1}, next)
		a.CMPQ(r.left, operand.U8(i))
		a.CMOVQGT(next, r.Row[i])
	}
	body(r)
	if n > 1 {
		a.MOVQ(r.Row[n-1], r.Row[0])
	}
	a.ADDQ(a.Gp("bytes"), r.Row[0])
	a.SUBQ(operand.U8(n), r.left)
	a.JG(operand.LabelRef("rows"))
	a.Ret()
}

// To is a byte offset from the rows to those of another parameter.
func (r *Rows) To(from, to string) reg.GPVirtual {
	off := r.a.Gp(to)
	r.a.SUBQ(r.a.Gp(from), off)
	return off
}

// Next is where the rows behind these begin; if rows have more than most bytes, where these begin.
func (r *Rows) Next(most int) reg.GPVirtual {
	bytes, next := r.a.Gp("bytes"), r.a.GP64()
	r.a.LEAQ(operand.Mem{Base: r.Row[0], Index: bytes, Scale: uint8(len(r.Row))}, next)
	r.a.CMPQ(bytes, operand.U32(most))
	r.a.CMOVQGT(r.Row[0], next)
	return next
}

// First loads the first vector of each row, by the mask that a parameter holds: 0 beyond the end of a short row.
func (r *Rows) First(mask string) []reg.VecVirtual {
	load, _ := r.lanesOf(r.a.Gp(mask))
	v := r.a.Vecs(len(r.Row))
	for i, row := range r.Row {
		load(operand.Mem{Base: row}, v[i])
	}
	return v
}

// lanesOf is Asm.lanesOf of the rows' elements.
func (r *Rows) lanesOf(mask reg.GPVirtual) (load func(operand.Mem, reg.VecVirtual), store func(reg.VecVirtual, operand.Mem)) {
	if !r.half {
		return r.a.lanesOf(mask)
	}
	k := r.a.K()
	r.a.KMOVW(mask.As32(), k)
	load = func(m operand.Mem, v reg.VecVirtual) {
		r.a.VPMOVZXWD_Z(m, k, v)
		r.a.ShiftLeft(16, v, v)
	}
	return load, func(v reg.VecVirtual, m operand.Mem) {
		r.a.RoundPairs(v, v)
		r.a.VMOVDQU16(r.a.Lower(v), k, m)
	}
}

// size is the bytes of an element.
func (r *Rows) size() int {
	if r.half {
		return 2
	}
	return 4
}

// load and store are of whole vectors.
func (r *Rows) load(m operand.Mem, v reg.VecVirtual) {
	if !r.half {
		r.a.Move(m, v)
		return
	}
	r.a.VPMOVZXWD(m, v)
	r.a.ShiftLeft(16, v, v)
}

func (r *Rows) store(v reg.VecVirtual, m operand.Mem) {
	if !r.half {
		r.a.Move(v, m)
		return
	}
	r.a.RoundPairs(v, v)
	r.a.VMOVUPS(r.a.Lower(v), m)
}

// LoadColumns loads float32 from p for the columns of a vector of the rows, and StoreColumns stores them.
func (r *Rows) LoadColumns(p, at reg.GPVirtual, v reg.VecVirtual) { r.loadColumn(r.columns(p, at), v) }

func (r *Rows) StoreColumns(v reg.VecVirtual, p, at reg.GPVirtual) {
	r.storeColumn(v, r.columns(p, at))
}

func (r *Rows) columns(p, at reg.GPVirtual) operand.Mem {
	return operand.Mem{Base: p, Index: at, Scale: uint8(4 / r.size())}
}

// Along runs body for every vector of the rows: at is where it begins in each, in bytes, to which shifted ones are
// added. load takes lanes beyond the end from rest, of which nil is 0.
func (r *Rows) Along(label string, shifted []reg.GPVirtual, body func(at reg.GPVirtual, load func(m operand.Mem, rest, v reg.VecVirtual), store func(v reg.VecVirtual, m operand.Mem))) {
	a, at, n := r.a, r.a.GP64(), r.a.Gp("vectors")
	a.XORQ(at, at)
	a.Label(label)
	a.DECQ(n)
	a.JL(operand.LabelRef(label + "Tail"))
	r.loadColumn, r.storeColumn = func(m operand.Mem, v reg.VecVirtual) { a.Move(m, v) }, func(v reg.VecVirtual, m operand.Mem) { a.Move(v, m) }
	body(at, func(m operand.Mem, _, v reg.VecVirtual) { r.load(m, v) }, r.store)
	a.Advance(operand.U8(r.size()*a.Lanes), append([]reg.GPVirtual{at}, shifted...)...)
	a.JMP(operand.LabelRef(label))
	a.Label(label + "Tail")
	rest := a.Gp("rest")
	a.TESTQ(rest, rest)
	a.JZ(operand.LabelRef(label + "Done"))
	r.tail(rest, at, body)
	a.Label(label + "Done")
}

// tail runs body for the lanes of the tail.
func (r *Rows) tail(rest, at reg.GPVirtual, body func(at reg.GPVirtual, load func(m operand.Mem, rest, v reg.VecVirtual), store func(v reg.VecVirtual, m operand.Mem))) {
	a := r.a
	load, store := a.lanesOf(a.Gp("tail"))
	if a.ISA == AVX2 { // whose masked stores take many cycles
		store = func(v reg.VecVirtual, m operand.Mem) { a.StoreLanes(v, rest, m) }
	}
	r.loadColumn, r.storeColumn = load, store
	if r.half {
		load, store = r.lanesOf(a.Gp("tail"))
	}
	body(at, func(m operand.Mem, others, v reg.VecVirtual) {
		switch {
		case others == nil:
			load(m, v)
		case r.half:
			load(m, v)
			k := a.K()
			a.KMOVW(a.Gp("tail").As32(), k)
			a.VBLENDMPS(v, others, k, v)
		default:
			a.LoadOr(m, a.Gp("tail"), others, v)
		}
	}, store)
}

// Ahead asks for a part of what lies from p on, of which there are as many as rows, as body goes Along them:
// four streams at once are more than what processors see coming by themselves.
func (r *Rows) Ahead(p, at reg.GPVirtual) {
	for line := 0; line < r.size()*r.a.Lanes*len(r.Row); line += 64 {
		r.a.PREFETCHT0(operand.Mem{Base: p, Index: at, Scale: uint8(len(r.Row)), Disp: line})
	}
}

// Sums are the sums of the lanes of a vector for each row, by the additions of Total, in the first lanes of one register.
func (r *Rows) Sums(v []reg.VecVirtual) reg.VecVirtual {
	a := r.a
	if len(v) == 1 {
		return a.Total(v[0])
	}
	x := make([]reg.VecVirtual, 4)
	for i := range x {
		x[i] = a.FoldTo128(v[i], a.VADDPS)
	}
	return a.sumFours(x, a.XMM)
}

// LaneSums are the sums of the lanes of each of four vectors, in the first lanes of one register: Sums in another order, with
// fewer instructions; v is lost.
func (a *Asm) LaneSums(v []reg.VecVirtual) reg.VecVirtual {
	return a.FoldTo128(a.sumFours(v, a.Vec), a.VADDPS)
}

// FirstSums are the sums of the first four lanes.
func (r *Rows) FirstSums(v []reg.VecVirtual) reg.VecVirtual {
	x := make([]reg.VecVirtual, len(v))
	for i := range x {
		x[i] = v[i].AsX().(reg.VecVirtual)
	}
	return r.a.sumFours(x, r.a.XMM)
}

// sumFours adds up each four lanes of four registers, in four lanes of the first.
func (a *Asm) sumFours(x []reg.VecVirtual, temp func() reg.VecVirtual) reg.VecVirtual {
	for i := 0; i < 4; i += 2 {
		upper := temp()
		a.VUNPCKHPS(x[i+1], x[i], upper)
		a.VUNPCKLPS(x[i+1], x[i], x[i])
		a.VADDPS(upper, x[i], x[i])
	}
	odd := temp()
	a.VUNPCKHPD(x[2], x[0], odd)
	a.VUNPCKLPD(x[2], x[0], x[0])
	a.VADDPS(odd, x[0], x[0])
	return x[0]
}

// Load loads a float32 for each row to the first lanes of a register.
func (r *Rows) Load(p reg.GPVirtual) reg.VecVirtual {
	x := r.a.XMM()
	if len(r.Row) == 1 {
		r.a.VMOVSS(operand.Mem{Base: p}, x)
	} else {
		r.a.VMOVUPS(operand.Mem{Base: p}, x)
	}
	return x
}

// Spread copies each row's lane of x to all lanes of a register.
func (r *Rows) Spread(x reg.VecVirtual) []reg.VecVirtual {
	to := r.a.Vecs(len(r.Row))
	for i, v := range to {
		one := r.a.XMM()
		r.a.VPERMILPS(operand.U8(0x55*i), x, one)
		r.a.Spread(one, v)
	}
	return to
}

// Each copies a float32 for each row from memory to all lanes of a register, and moves p on.
func (r *Rows) Each(p reg.GPVirtual) []reg.VecVirtual {
	to := r.a.Vecs(len(r.Row))
	for i, v := range to {
		r.a.Spread(operand.Mem{Base: p, Disp: 4 * i}, v)
	}
	r.a.Advance(operand.U8(4*len(r.Row)), p)
	return to
}

// Store stores a lane for each of four rows that is left, and moves p on by four.
func (r *Rows) Store(x reg.VecVirtual, p reg.GPVirtual) {
	a := r.a
	a.stores++
	label := func(name string) operand.LabelRef { return operand.LabelRef(fmt.Sprintf("%s%d", name, a.stores)) }
	a.CMPQ(r.left, operand.U8(4))
	a.JL(label("few"))
	a.VMOVUPS(x, operand.Mem{Base: p})
	a.JMP(label("kept"))
	a.Label(string(label("few")))
	first := a.XMM()
	a.VMOVUPS(x, first)
	a.TESTQ(operand.U32(2), r.left)
	a.JZ(label("one"))
	a.VMOVLPS(x, operand.Mem{Base: p})
	a.VPSRLDQ(operand.U8(8), x, first)
	a.TESTQ(operand.U32(1), r.left)
	a.JZ(label("kept"))
	a.VMOVSS(first, operand.Mem{Base: p, Disp: 8})
	a.JMP(label("kept"))
	a.Label(string(label("one")))
	a.VMOVSS(x, operand.Mem{Base: p})
	a.Label(string(label("kept")))
	a.Advance(operand.U8(16), p)
}
