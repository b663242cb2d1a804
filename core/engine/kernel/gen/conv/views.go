package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of viewDots and viewRows.
const (
	vdImages, vdDYImage, vdXImage = 0, 8, 16
	vdVectors, vdTail             = 24, 32
	vdDY, vdDYRow, vdSums, vdX    = 40, 48, 56, 64
	vrPlanes, vrRows, vrVectors   = 0, 8, 16
	vrSrc, vrFrom, vrDst, vrMasks = 24, 32, 40, 48
	vrSrcPlane, vrSrcRow          = 56, 64
	vrDstPlane, vrDstRow, vrPicks = 72, 80, 88
	vrSecond                      = 96
)

// viewTiles are the most views for so many rows of dy, by the lanes of vectors: as many sums as leave registers for the rows and a view.
var viewTiles = map[int][]int{8: {1: 8, 2: 6, 3: 4}, 16: {1: 8, 2: 8, 3: 8, 4: 6, 5: 5, 6: 4}}

// leastViews is the fewest: with fewer yet, loads take longer than products.
const leastViews = 4

// viewDots emits the micro-kernels of weight gradients whose pixels lie side by side across the ends of rows, in dy and
// in what each tap sees: no table says where vectors are, and one in a plane is not whole.
func viewDots(a *isa.Asm) {
	tiles := viewTiles[a.Lanes]
	for rows := 1; rows < len(tiles); rows++ {
		for views := leastViews; views <= tiles[rows]; views++ {
			viewTile(a, rows, views)
		}
	}
}

func viewTile(a *isa.Asm, rows, views int) {
	a.Kernel(fmt.Sprintf("viewDots%dx%d", rows, views), "func(viewDots *byte)",
		fmt.Sprintf("adds %d×%d sums of products of images to vectors of sums.", rows, views))
	t := a.Gp("viewDots")
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	sums, acc := a.Field(t, vdSums), a.Vecs(rows*views)
	for i, v := range acc {
		a.Move(operand.Mem{Base: sums, Disp: i * vectorBytes(a)}, v)
	}
	dy, x, stride, off, left := a.Field(t, vdDY), make([]reg.GPVirtual, views), a.Field(t, vdDYRow), a.GP64(), a.GP64()
	for j := range x {
		x[j] = a.Field(t, vdX+8*j)
	}
	// Rows 0 to 2 are strides behind dy, and rows 3 to 5 behind the fourth.
	base := []reg.GPVirtual{a.GP64()}
	if rows > 3 {
		base = append(base, a.GP64())
	}
	step := func(load func(m operand.Mem, v reg.VecVirtual)) {
		grad, view := a.Vecs(rows), a.Vec()
		for i, v := range grad {
			m := operand.Mem{Base: base[i/3]}
			if i%3 > 0 {
				m.Index, m.Scale = stride, uint8(i%3)
			}
			load(m, v)
		}
		for j := range x {
			load(isa.Offset(x[j], off, 0), view)
			for i, g := range grad {
				a.Fma(g, view, acc[i*views+j])
			}
		}
	}
	a.Label("image")
	a.MOVQ(dy, base[0])
	if rows > 3 {
		a.LEAQ(operand.Mem{Base: dy, Index: stride, Scale: 2}, base[1])
		a.ADDQ(stride, base[1])
	}
	a.XORQ(off, off)
	a.MOVQ(field(vdVectors), left)
	a.TESTQ(left, left)
	a.JZ(operand.LabelRef("tail"))
	a.Label("loop")
	step(func(m operand.Mem, v reg.VecVirtual) { a.Move(m, v) })
	a.Advance(operand.U8(vectorBytes(a)), append(base, off)...)
	a.CountDown(left, "loop")
	a.Label("tail")
	a.CMPQ(field(vdTail), operand.U8(0))
	a.JEQ(operand.LabelRef("next"))
	step(a.LoadThrough(t, vdTail))
	a.Label("next")
	a.ADDQ(field(vdDYImage), dy)
	a.Advance(field(vdXImage), x...)
	a.CountDown(field(vdImages), "image")
	a.MOVQ(field(vdSums), sums)
	for i, v := range acc {
		a.Move(v, operand.Mem{Base: sums, Disp: i * vectorBytes(a)})
	}
	a.Ret()
}

// viewRows emits the copies of rows of planes as a tap sees them: of every pixel, or of every second one. Masks say which
// pixels of a vector of results are inside the image; others are zeros.
func viewRows(a *isa.Asm) {
	viewRowsOf(a, "viewRows", "copies rows of planes, shifted.", 1)
	viewRowsOf(a, "viewEvenRows", "copies every second element of rows of planes, shifted.", 2)
}

// viewMasks is how many masks stay in registers: those of rows of a few vectors.
const viewMasks = 4

// viewCopy emits the copies of rows. They read step vectors for each that they write; the second begins so many bytes behind
// the first as the call says, which may be in the next row.
type viewCopy struct {
	a                      *isa.Asm
	t                      reg.GPVirtual
	step                   int
	src, dst, from, to     reg.GPVirtual
	srcRow, dstRow, second reg.GPVirtual
	masks                  reg.GPVirtual
	k                      []reg.Register
	v                      []reg.VecVirtual
	picks                  reg.VecVirtual
}

func (c *viewCopy) field(offset int) operand.Mem { return operand.Mem{Base: c.t, Disp: offset} }

func viewRowsOf(a *isa.Asm, name, doc string, step int) {
	a.Kernel(name, "func(viewRows *byte)", doc+" It may write zeros behind a row.")
	t := a.Gp("viewRows")
	c := viewCopy{
		a: a, t: t, step: step, src: a.Field(t, vrSrc), dst: a.Field(t, vrDst), from: a.GP64(), to: a.GP64(),
		srcRow: a.Field(t, vrSrcRow), dstRow: a.Field(t, vrDstRow), second: a.Field(t, vrSecond), masks: a.Field(t, vrMasks),
		k: make([]reg.Register, viewMasks), v: a.Vecs(2), picks: a.Vec(),
	}
	for i := range c.k {
		c.k[i] = a.K()
	}
	a.ADDQ(c.field(vrFrom), c.src)
	if step > 1 {
		a.Move(operand.Mem{Base: a.Field(t, vrPicks)}, c.picks)
	}
	vectors := a.Field(t, vrVectors)
	for n := 1; n <= viewMasks/step; n++ {
		next := fmt.Sprintf("over%d", n)
		a.CMPQ(vectors, operand.U8(n))
		a.JNE(operand.LabelRef(next))
		for j := range n {
			c.loadMasks(j, c.k[step*j:])
		}
		c.planes(fmt.Sprint(n), func() {
			for j := range n {
				c.vector(c.from, c.to, j, c.k[step*j:])
			}
		})
		a.Label(next)
	}
	c.planes("", func() { c.longRow(vectors) })
}

// loadMasks loads the masks of a vector.
func (c *viewCopy) loadMasks(vector int, k []reg.Register) {
	for i := range c.step {
		c.a.KMOVW(operand.Mem{Base: c.masks, Disp: 4*vector + 2*i}, k[i])
	}
}

// vector copies one.
func (c *viewCopy) vector(from, to reg.GPVirtual, vector int, k []reg.Register) {
	a := c.a
	for i := range c.step {
		m := operand.Mem{Base: from, Disp: vector * c.step * vectorBytes(a)}
		if i > 0 {
			m.Index, m.Scale = c.second, 1
		}
		a.LoadLanes(m, k[i], c.v[i])
	}
	if c.step > 1 {
		a.VPERMT2PS(c.v[1], c.picks, c.v[0])
	}
	a.Move(c.v[0], operand.Mem{Base: to, Disp: vector * vectorBytes(a)})
}

// longRow copies a row of many vectors, whose masks it loads one after the other.
func (c *viewCopy) longRow(left reg.GPVirtual) {
	a, from, to := c.a, c.a.GP64(), c.a.GP64()
	a.MOVQ(c.field(vrMasks), c.masks)
	a.MOVQ(c.field(vrVectors), left)
	a.MOVQ(c.from, from)
	a.MOVQ(c.to, to)
	a.Label("vector")
	c.loadMasks(0, c.k)
	c.vector(from, to, 0, c.k)
	a.ADDQ(operand.U32(c.step*vectorBytes(a)), from)
	a.Advance(operand.U8(vectorBytes(a)), to)
	a.ADDQ(operand.U8(4), c.masks)
	a.CountDown(left, "vector")
}

// planes calls row for every row of every plane.
func (c *viewCopy) planes(label string, row func()) {
	a, rows := c.a, c.a.GP64()
	a.Label("plane" + label)
	a.MOVQ(c.src, c.from)
	a.MOVQ(c.dst, c.to)
	a.MOVQ(c.field(vrRows), rows)
	a.Label("row" + label)
	row()
	a.ADDQ(c.srcRow, c.from)
	a.ADDQ(c.dstRow, c.to)
	a.CountDown(rows, "row"+label)
	a.ADDQ(c.field(vrSrcPlane), c.src)
	a.ADDQ(c.field(vrDstPlane), c.dst)
	a.CountDown(c.field(vrPlanes), "plane"+label)
	a.Ret()
}
