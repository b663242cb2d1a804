package gemm

import (
	"bytes"
	"fmt"
	source "go/format"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of strip.
const (
	stripK, stripTiles                 = 0, 8
	stripA, stripAStep, stripANext     = 16, 24, 32
	stripB, stripBStep                 = 40, 48
	stripC, stripLdc, stripN0, stripN1 = 56, 64, 72, 80
	stripGate, stripBias               = 88, 96
	stripBiasNext, stripAdd            = 104, 112
	stripFloor                         = 120
	stripTail                          = 128
	stripAheadA, stripAheadB           = 136, 144
	stripAheadC, stripFar              = 152, 160
)

// heights emits kernels of matrix products: strips of C, one tile below the other, of every
// height and of one or two vectors. Three forms differ in how they read A and write C; a fourth is
// for few columns.
func heights(form func(a *isa.Asm, mr, vectors int)) func(*isa.Asm) {
	return func(a *isa.Asm) {
		for mr := 1; mr <= a.TileRows; mr++ {
			for vectors := 1; vectors <= 2; vectors++ {
				form(a, mr, vectors)
			}
		}
	}
}

// along reads the values of A for one k side by side, and those of the next k
// aStep bytes later.
func along(a *isa.Asm, mr, vectors int) {
	a.Kernel(fmt.Sprintf("along%dx%d", mr, vectors), "func(strip *byte)",
		fmt.Sprintf("computes tiles of %d rows by %d vectors; A's rows lie side by side.", mr, vectors))
	t := a.Gp("strip")
	aStart, aStep, bStep := a.Field(t, stripA), a.Field(t, stripAStep), a.Field(t, stripBStep)
	c, ldc, tiles := a.Field(t, stripC), a.Field(t, stripLdc), a.Field(t, stripTiles)
	gate := a.Field(t, stripGate)
	acc := a.Vecs(vectors * mr)
	a.Label("tile")
	prefetchRows(a, c, ldc, mr, vectors)
	for _, v := range acc {
		a.Zero(v)
	}
	k, pa, pb := a.Field(t, stripFar), a.GP64(), a.Field(t, stripB)
	a.MOVQ(aStart, pa)
	v, w := a.Vecs(vectors), a.Vecs(2)
	loop := func(label string, prefetch func()) {
		a.Label(label)
		loadVectors(a, pb, 0, v)
		prefetch()
		for i := range mr {
			a.Spread(operand.Mem{Base: pa, Disp: 4 * i}, w[i%2])
			addProducts(a, v, w[i%2], acc[vectors*i:])
		}
		a.ADDQ(aStep, pa)
		a.ADDQ(bStep, pb)
		a.CountDown(k, label)
	}
	aheadA, aheadB := a.Field(t, stripAheadA), a.Field(t, stripAheadB)
	a.TESTQ(k, k)
	a.JZ(operand.LabelRef("near"))
	loop("far", func() {
		a.PREFETCHT0(isa.Offset(pa, aheadA, 0))
		for d := 0; d < 4*a.Lanes*vectors; d += 64 {
			a.PREFETCHT0(isa.Offset(pb, aheadB, d))
		}
	})
	a.Label("near")
	a.MOVQ(operand.Mem{Base: t, Disp: stripK}, k)
	a.SUBQ(operand.Mem{Base: t, Disp: stripFar}, k)
	loop("loop", func() {})
	finishRows(a, t, c, ldc, gate, mr, vectors, acc)
	a.ADDQ(operand.Mem{Base: t, Disp: stripANext}, aStart)
	a.CountDown(tiles, "tile")
	a.Ret()
}

// apart reads the values of A for one k from mr rows aStep bytes apart, B as along does, and
// starts each row at the bias.
func apart(a *isa.Asm, mr, vectors int) {
	a.Kernel(fmt.Sprintf("apart%dx%d", mr, vectors), "func(strip *byte)",
		fmt.Sprintf("computes tiles of %d rows by %d vectors; A's rows lie apart.", mr, vectors))
	t, bStep, acc := a.Gp("strip"), a.GP64(), a.Vecs(vectors*mr)
	c, tiles, lda, first := a.Field(t, stripC), a.Field(t, stripTiles), a.Field(t, stripAStep), a.Field(t, stripA)
	a.MOVQ(operand.Mem{Base: t, Disp: stripBStep}, bStep)
	a.Label("tile")
	ahead := a.Field(t, stripAheadA)
	a.TESTQ(ahead, ahead)
	a.JNZ(operand.LabelRef("short"))
	a.CMPQ(lda, operand.U32(lookAhead))
	a.JLE(operand.LabelRef("start"))
	prefetchRows(a, c, a.Field(t, stripLdc), mr, vectors)
	prefetchNext(a, t, first, lda, mr)
	a.JMP(operand.LabelRef("start"))
	a.Label("short")
	prefetchShort(a, t, first, c, mr, vectors)
	a.Label("start")
	bias := a.Field(t, stripBias)
	for i := range mr {
		loadVectors(a, bias, 0, acc[vectors*i:][:vectors])
	}
	base := rowBases(a, first, lda, mr)
	k, pb := a.Field(t, stripK), a.Field(t, stripB)
	byK(a, k, base, lda, mr, a.Lanes < 16 || vectors > 1, "finish", func(s int) {
		v, w := a.Vecs(vectors), a.Vecs(2)
		loadVectors(a, pb, 0, v)
		for i := range mr {
			a.Spread(rowAt(base, lda, i, 4*s), w[i%2])
			addProducts(a, v, w[i%2], acc[vectors*i:])
		}
		a.ADDQ(bStep, pb)
	}, func(int) {})
	finishRows(a, t, c, a.Field(t, stripLdc), nil, mr, vectors, acc)
	a.ADDQ(operand.Mem{Base: t, Disp: stripANext}, first)
	a.CountDown(tiles, "tile")
	a.Ret()
}

// byK calls step for each k of rows of A that lie apart, four of them in a loop, at whose end it goes to the next
// label. step s of a loop reads the s-th value behind the bases; advance moves what else the n steps before have read. It
// prefetches rows if ahead is set: not where a step has as many loads as products, so that loads take the time.
func byK(a *isa.Asm, k reg.GPVirtual, base []reg.GPVirtual, lda reg.GPVirtual, mr int, ahead bool, next string, step, advance func(n int)) {
	forward := func(n int) {
		for _, b := range base {
			a.ADDQ(operand.U8(4*n), b)
		}
		advance(n)
	}
	const unroll = 4
	a.SUBQ(operand.U8(unroll), k)
	a.JL(operand.LabelRef("rest"))
	a.Label("loop")
	for i := range mr {
		if ahead {
			a.PREFETCHT0(rowAt(base, lda, i, lookAhead))
		}
	}
	for s := range unroll {
		step(s)
	}
	forward(unroll)
	a.SUBQ(operand.U8(unroll), k)
	a.JGE(operand.LabelRef("loop"))
	a.Label("rest")
	a.ADDQ(operand.U8(unroll), k)
	a.JZ(operand.LabelRef(next))
	a.Label("one")
	step(0)
	forward(1)
	a.CountDown(k, "one")
	a.Label(next)
}

// prefetchRows asks for the rows of C that a tile writes in the end.
func prefetchRows(a *isa.Asm, c, ldc reg.GPVirtual, mr, vectors int) {
	p := a.GP64()
	a.MOVQ(c, p)
	for i := range mr {
		for d := 0; d < 4*a.Lanes*vectors; d += 64 {
			a.PREFETCHT0(operand.Mem{Base: p, Disp: d})
		}
		if i < mr-1 {
			a.ADDQ(ldc, p)
		}
	}
}

func loadVectors(a *isa.Asm, p reg.GPVirtual, disp int, v []reg.VecVirtual) {
	for i := range v {
		a.Move(operand.Mem{Base: p, Disp: disp + 4*a.Lanes*i}, v[i])
	}
}

func addProducts(a *isa.Asm, v []reg.VecVirtual, w reg.VecVirtual, acc []reg.VecVirtual) {
	for i := range v {
		a.Fma(v[i], w, acc[i])
	}
}

// finishRows adds C to the sums if asked to, zeroes them where the gate, unless it is nil, is not
// above zero, writes them, and leaves c and gate at the next tile.
func finishRows(a *isa.Asm, t, c, ldc, gate reg.GPVirtual, mr, vectors int, acc []reg.VecVirtual) {
	masks := []reg.Register{a.LaneMask(t, stripN0), a.LaneMask(t, stripN1)}[:vectors]
	rows := func(p reg.GPVirtual, f func(m operand.Mem, j int, v reg.VecVirtual)) {
		for i := range mr {
			for j := range masks {
				f(operand.Mem{Base: p, Disp: 4 * a.Lanes * j}, j, acc[vectors*i+j])
			}
			a.ADDQ(ldc, p)
		}
	}
	flag, p := a.Field(t, stripAdd), a.GP64()
	a.StoreWays(masks, false, "stored", func(way string, store func(v reg.VecVirtual, i int, m operand.Mem)) {
		all := way == isa.AllLanes
		a.TESTQ(flag, flag)
		a.JZ(operand.LabelRef("gate" + way))
		a.MOVQ(c, p)
		rows(p, func(m operand.Mem, j int, v reg.VecVirtual) { addLanes(a, all, m, masks[j], v) })
		a.Label("gate" + way)
		if gate != nil {
			a.TESTQ(gate, gate)
			a.JZ(operand.LabelRef("store" + way))
			zero := a.Vec()
			a.Zero(zero)
			rows(gate, func(m operand.Mem, j int, v reg.VecVirtual) {
				if all {
					a.GateAll(m, zero, v)
				} else {
					a.GateLanes(m, masks[j], zero, v)
				}
			})
			a.Label("store" + way)
		}
		rows(c, func(m operand.Mem, j int, v reg.VecVirtual) { store(v, j, m) })
	})
}

// addLanes adds memory to all lanes, or to those of a mask, which some processors take ten cycles to load.
func addLanes(a *isa.Asm, all bool, m operand.Mem, mask reg.Register, v reg.VecVirtual) {
	if all {
		a.Add(m, v, v)
	} else {
		a.AddLanes(m, mask, v)
	}
}

// The rows that share a base register, reached by index, and how many bytes across looks ahead.
const (
	rowsPerBase = 3
	lookAhead   = 256
)

// across reads the values of A for one k from mr rows aStep bytes apart, B from a
// packed panel, and transposes each tile: its columns become rows of C.
func across(a *isa.Asm, mr, vectors int) {
	a.Kernel(fmt.Sprintf("across%dx%d", mr, vectors), "func(strip *byte)",
		fmt.Sprintf("computes tiles of %d rows by %d vectors; A's rows lie apart, and C is written transposed.", mr, vectors))
	t := a.Gp("strip")
	c, tiles, lda := a.Field(t, stripC), a.Field(t, stripTiles), a.Field(t, stripAStep)
	first, bias := a.Field(t, stripA), a.Field(t, stripBias)
	acc := a.Vecs(vectors * mr)
	a.Label("tile")
	prefetchNext(a, t, first, lda, mr)
	for i, v := range acc { // clearing a register counts as reading it, and there are none to spare around the loop
		a.Spread(operand.Mem{Base: bias, Disp: 4 * (i / vectors)}, v)
	}
	base := rowBases(a, first, lda, mr)
	k, pb := a.Field(t, stripK), a.Field(t, stripB)
	byK(a, k, base, lda, mr, true, "transpose", func(s int) {
		v, w := a.Vecs(vectors), a.Vecs(2)
		loadVectors(a, pb, 4*a.Lanes*vectors*s, v)
		for i := range mr {
			a.Spread(rowAt(base, lda, i, 4*s), w[i%2])
			addProducts(a, v, w[i%2], acc[vectors*i:])
		}
	}, func(n int) { a.ADDQ(operand.I32(4*a.Lanes*vectors*n), pb) })
	storeTransposed(a, t, c, mr, vectors, acc)
	a.ADDQ(operand.U8(4*mr), c)
	a.ADDQ(operand.Mem{Base: t, Disp: stripANext}, first)
	a.ADDQ(operand.Mem{Base: t, Disp: stripBiasNext}, bias)
	a.CountDown(tiles, "tile")
	a.Ret()
}

// prefetchShort is prefetchNext for rows so short that several share a line; it looks as far ahead as it is told, and for
// rows of C, too.
func prefetchShort(a *isa.Asm, t, first, c reg.GPVirtual, mr, vectors int) {
	p := a.GP64()
	a.MOVQ(operand.Mem{Base: t, Disp: stripAheadC}, p)
	a.ADDQ(c, p)
	prefetchRows(a, p, a.Field(t, stripLdc), mr, vectors)
	prefetchLines(a, first, a.Field(t, stripAheadA), a.Field(t, stripANext), "lines")
}

// prefetchLines asks for so many bytes that lie ahead of p.
func prefetchLines(a *isa.Asm, p, ahead, bytes reg.GPVirtual, label string) {
	a.ADDQ(p, ahead)
	a.ADDQ(ahead, bytes)
	a.Label(label)
	a.PREFETCHT0(operand.Mem{Base: ahead})
	a.ADDQ(operand.U8(64), ahead)
	a.CMPQ(ahead, bytes)
	a.JL(operand.LabelRef(label))
}

// prefetchNext asks for the beginnings of the rows of A that the next tile reads: a row is too short for the hardware
// to find it, and to make up for that.
func prefetchNext(a *isa.Asm, t, first, lda reg.GPVirtual, mr int) {
	p := a.GP64()
	a.MOVQ(first, p)
	a.ADDQ(operand.Mem{Base: t, Disp: stripANext}, p)
	for i := range mr {
		for d := 0; d < lookAhead; d += 64 {
			a.PREFETCHT2(operand.Mem{Base: p, Disp: d})
		}
		if i < mr-1 {
			a.ADDQ(lda, p)
		}
	}
}

// rowBases are registers from which rowAt reaches mr rows.
func rowBases(a *isa.Asm, first, lda reg.GPVirtual, mr int) []reg.GPVirtual {
	base := []reg.GPVirtual{a.GP64()}
	a.MOVQ(first, base[0])
	for len(base)*rowsPerBase < mr {
		b := a.GP64()
		a.LEAQ(operand.Mem{Base: base[len(base)-1], Index: lda, Scale: 2}, b)
		a.ADDQ(lda, b)
		base = append(base, b)
	}
	return base
}

func rowAt(base []reg.GPVirtual, lda reg.GPVirtual, i, disp int) operand.Mem {
	m := operand.Mem{Base: base[i/rowsPerBase], Disp: disp}
	if s := i % rowsPerBase; s > 0 {
		m.Index, m.Scale = lda, uint8(s)
	}
	return m
}

// storeTransposed writes the tile's columns, n0 of them, as rows of mr elements of C:
// plus what C holds if asked to, and at least the floor. With sixteen lanes a second vector of columns goes
// through the code of the first; eight columns do not make up for that.
func storeTransposed(a *isa.Asm, t, c reg.GPVirtual, mr, vectors int, acc []reg.VecVirtual) {
	p, left := a.GP64(), a.Field(t, stripN0)
	a.MOVQ(c, p)
	finish := addAndFloor(a, t)
	if vectors == 1 || a.Lanes < 16 {
		for h := range vectors {
			storeColumns(a, t, p, left, mr, vectors, acc[h:], finish)
		}
	} else {
		a.Label("columns")
		storeColumns(a, t, p, left, mr, vectors, acc, finish)
		for i := range mr {
			a.Copy(acc[2*i+1], acc[2*i])
		}
		a.JMP(operand.LabelRef("columns"))
	}
	a.Label("stored")
}

// storeColumns writes one vector of columns, and goes to the label stored when none are left.
func storeColumns(a *isa.Asm, t, p, left reg.GPVirtual, mr, vectors int, acc []reg.VecVirtual, finish func(m operand.Mem, x reg.VecVirtual)) {
	v := make([]reg.VecVirtual, a.Lanes)
	for i := range v {
		if i < mr {
			v[i] = acc[vectors*i]
		} else { // a row that is not there
			v[i] = a.Vec()
			a.Copy(v[0], v[i])
		}
	}
	columns := a.Transpose(v)
	ldc, store := a.Field(t, stripLdc), a.LaneMask(t, stripN1)
	for _, x := range columns {
		finish(operand.Mem{Base: p}, x)
		a.StoreSome(x, mr, store, operand.Mem{Base: p})
		a.ADDQ(ldc, p)
		a.DECQ(left)
		a.JZ(operand.LabelRef("stored"))
	}
}

// ProductChoice writes the Go functions that choose among the kernels: a call
// through a table would move the strip to the heap.
func ProductChoice(dir string) error {
	if err := writeProductChoice(filepath.Join(dir, "zz_product_choice_amd64.go"), isa.AVX2, isa.AVX512); err != nil {
		return err
	}
	return writeProductChoice(filepath.Join(dir, "zz_product_choice_arm64.go"), isa.NEON)
}

func writeProductChoice(path string, isas ...isa.ISA) error {
	var b bytes.Buffer
	b.WriteString("// Code generated by command: gen. DO NOT EDIT.\n\npackage gemm\n")
	for _, form := range []string{"along", "across", "apart"} {
		name := "run" + strings.ToUpper(form[:1]) + form[1:]
		fmt.Fprintf(&b, "\n// %s runs the kernel of that many rows and vectors of so many lanes.\n", name)
		byLanes(&b, name, "rows, vectors", isas)
		for _, v := range isas {
			fmt.Fprintf(&b, "\nfunc %s%s(rows, vectors int, t *strip) {\n\tswitch 2*rows + vectors {\n", name, v.Name)
			for mr := 1; mr <= v.TileRows; mr++ {
				for vectors := 1; vectors <= 2; vectors++ {
					fmt.Fprintf(&b, "\tcase 2*%d + %d:\n\t\t%s%dx%d%s(t)\n", mr, vectors, form, mr, vectors, v.Name)
				}
			}
			b.WriteString("\t}\n}\n")
		}
	}
	narrowChoice(&b, isas)
	text, err := source.Source(b.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// byLanes writes a function that calls the one for vectors of so many lanes.
func byLanes(b *bytes.Buffer, name, args string, isas []isa.ISA) {
	if len(isas) > 1 {
		fmt.Fprintf(b, "func %s(lanes, %s int, t *strip) {\n\tif lanes == %d {\n\t\t%sAVX512(%s, t)\n\t} else {\n\t\t%sAVX2(%s, t)\n\t}\n}\n", name, args, isas[1].Lanes, name, args, name, args)
	} else {
		fmt.Fprintf(b, "func %s(_, %s int, t *strip) {\n\t%s%s(%s, t)\n}\n", name, args, name, isas[0].Name, args)
	}
}

// addAndFloor adds the lanes of memory that add names to a vector, and raises the sum to the
// floor; NaN stays.
func addAndFloor(a *isa.Asm, t reg.GPVirtual) func(m operand.Mem, x reg.VecVirtual) {
	add := a.Field(t, stripAdd)
	if a.Lanes == 16 {
		k, floor := a.K(), a.Vec()
		a.KMOVW(add.As32(), k)
		a.VBROADCASTSS(operand.Mem{Base: t, Disp: stripFloor}, floor)
		return func(m operand.Mem, x reg.VecVirtual) {
			a.VADDPS(m, x, k, x)
			a.VMAXPS(x, floor, x)
		}
	}
	columns := 0
	return func(m operand.Mem, x reg.VecVirtual) {
		old, sum := a.Vec(), fmt.Sprint("sum", columns)
		columns++
		a.CMPL(operand.Mem{Base: add}, operand.U8(0)) // without the first lane there is none
		a.JE(operand.LabelRef(sum))
		a.VMOVUPS(operand.Mem{Base: add}, old) // the mask, then what it lets through
		a.VMASKMOVPS(m, old, old)
		a.VADDPS(old, x, x)
		a.Label(sum)
		a.VBROADCASTSS(operand.Mem{Base: t, Disp: stripFloor}, old)
		a.VMAXPS(x, old, x)
	}
}
