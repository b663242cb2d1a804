package conv

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of transform and pointTile.
const (
	trCount, trIn, trInRow, trInCol, trInStep   = 0, 8, 16, 24, 32
	trOut, trOutRow, trOutCol, trOutStep, trTmp = 40, 48, 56, 64, 72
	trPart                                      = 80
	ptCount, ptBlocks, ptSteps, ptJump          = 0, 8, 16, 24
	ptA, ptAStep, ptB0, ptB1                    = 32, 40, 48, 56
	ptC0, ptC1, ptCStep, ptAdd                  = 64, 72, 80, 88
	channelBlock, lanesBytes                    = 16, 64 // channels that lie side by side, and their bytes
)

// winograd emits the kernels of Winograd convolution: transforms of
// 16 channels at a time, and the products in between.
func winograd(a *isa.Asm) {
	for _, p := range []pointSet{six, eight} {
		n := len(p.finite) + 1
		transform(a, fmt.Sprintf("dataTo%dPoints", n), fmt.Sprintf("tiles of %d×%d pixels to as many points", n, n), p.signed(dataMatrix(p.finite)), byRows)
		for _, taps := range p.taps {
			transform(a, fmt.Sprintf("filter%dTo%dPoints", taps, n), fmt.Sprintf("filters of %d×%d to %d×%d points", taps, taps, n, n), p.signed(filterMatrix(p.finite, taps)), byRows)
			transform(a, fmt.Sprintf("points%dTo%d", n, taps), fmt.Sprintf("%d×%d points to tiles of %d×%d", n, n, taps, taps), outMatrix(p.finite, taps), byCols)
		}
	}
	halving(a)
	for blocks := 1; blocks <= a.Points.Blocks; blocks++ {
		for _, rows := range a.Points.Rows {
			if rows > 0 {
				pointTile(a, fmt.Sprintf("pointRows%dx%d", rows, blocks), lanesBytes, 4, rows, blocks, 4)
				pointTile(a, fmt.Sprintf("pointCols%dx%d", rows, blocks), 4, lanesBytes, rows, blocks, a.Points.Unroll)
			}
		}
	}
	planesToLanes(a)
	lanesToPlanes(a)
	lanesOntoPlanes(a)
}

// pointSet are the points at which the polynomials of Toom and Cook are
// evaluated, besides infinity: zero, and pairs ±p, which share their even and odd
// parts. taps are the sizes of filters and of tiles of outputs.
type pointSet struct {
	finite []float64
	taps   []int
}

// Points near 1 keep rounding small: six points with 3/4 and 3/2 round half as
// much as with 1 and 2, or 1 and 1/2.
var (
	six   = pointSet{finite: []float64{0, 0.75, -0.75, 1.5, -1.5}, taps: []int{3, 4}}
	eight = pointSet{finite: []float64{0, 1, -1, 2, -2, 0.5, -0.5}, taps: []int{4, 5}}
)

// signed turns the sign of the first row where its normaliser is negative, for
// the data as for the filter: factors of −1 cost more than factors of 1.
func (p pointSet) signed(m [][]float64) [][]float64 {
	if len(p.finite)/2%2 == 1 { // as many factors −p², and nothing else
		for i := range m[0] {
			m[0][i] = 0 - m[0][i]
		}
	}
	return m
}

// dataMatrix is Bᵀ of Lavin and Gray: row j holds the coefficients of Π (x − q)
// over the finite points q other than j's; the last row has them all.
func dataMatrix(finite []float64) [][]float64 {
	var m [][]float64
	for j := range len(finite) + 1 {
		row := []float64{1}
		for i, q := range finite {
			if i != j {
				row = timesRoot(row, q)
			}
		}
		for len(row) < len(finite)+1 {
			row = append(row, 0)
		}
		m = append(m, row)
	}
	return m
}

// timesRoot multiplies a polynomial, lowest coefficient first, by x − q.
func timesRoot(c []float64, q float64) []float64 {
	out := make([]float64, len(c)+1)
	for i, v := range c {
		out[i+1] += v
		out[i] -= q * v
	}
	return out
}

// filterMatrix is G for n taps: powers of the points over their normalisers.
func filterMatrix(finite []float64, n int) [][]float64 {
	m := make([][]float64, len(finite)+1)
	for j := range m {
		m[j] = make([]float64, n)
		if j == len(finite) {
			m[j][n-1] = 1
			continue
		}
		norm := 1.0
		for i, q := range finite {
			if i != j {
				norm *= finite[j] - q
			}
		}
		for i := range n {
			m[j][i] = math.Pow(finite[j], float64(i)) / norm
		}
	}
	return m
}

// outMatrix is Aᵀ for n outputs.
func outMatrix(finite []float64, n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, len(finite)+1)
		for j, p := range finite {
			m[i][j] = math.Pow(p, float64(i))
		}
	}
	m[n-1][len(finite)] = 1
	return m
}

// constants are the factors other than 0 and ±1 of a matrix: in registers, or in
// memory where there are too few of those.
type constants struct {
	registers map[float64]reg.VecVirtual
	memory    *table
}

// newConstants go in front of the function.
func newConstants(a *isa.Asm, name string) constants {
	if a.Lanes < channelBlock {
		return constants{memory: newTable(a, name)}
	}
	return constants{registers: map[float64]reg.VecVirtual{}}
}

// load fills the registers.
func (c constants) load(a *isa.Asm, m [][]float64) {
	if c.memory != nil {
		return
	}
	for _, row := range m {
		for _, v := range row {
			v = math.Abs(v)
			if v == 0 || v == 1 || c.registers[v] != nil {
				continue
			}
			g, x, z := a.GP32(), a.XMM(), a.Vec()
			a.MOVL(operand.U32(math.Float32bits(float32(v))), g)
			a.VMOVD(g, x)
			a.Spread(x, z)
			c.registers[v] = z
		}
	}
}

// factor is |v| in every lane.
func (c constants) factor(v float64) operand.Op {
	if v = math.Abs(v); v == 1 {
		return nil
	}
	if c.memory != nil {
		return c.memory.get(v)
	}
	return c.registers[v]
}

// combine computes Σ row[i]·in[i] over the indices given, nil if there are none.
func combine(a *isa.Asm, c constants, row []float64, in []reg.VecVirtual, idx func(i int) bool) reg.VecVirtual {
	var acc reg.VecVirtual
	order := make([]int, 0, len(row))
	for _, one := range []bool{true, false} { // a sum starts best with a factor of 1
		for i, v := range row {
			if v != 0 && idx(i) && (v == 1) == one {
				order = append(order, i)
			}
		}
	}
	for _, i := range order {
		v, x := row[i], in[i]
		k := c.factor(v)
		switch {
		case acc == nil && v == 1:
			acc = a.Vec()
			a.Copy(x, acc)
		case acc == nil && v == -1:
			acc = a.Vec()
			a.Zero(acc)
			a.Sub(x, acc, acc)
		case acc == nil:
			acc = a.Vec()
			a.Mul(k, x, acc)
			if v < 0 {
				z := a.Vec()
				a.Zero(z)
				a.Sub(acc, z, acc)
			}
		case v == 1:
			a.Add(x, acc, acc)
		case v == -1:
			a.Sub(x, acc, acc)
		case v > 0:
			a.Fma(k, x, acc)
		default:
			a.Fnma(k, x, acc)
		}
	}
	return acc
}

// byRows multiplies with a matrix whose rows 1 and 2, 3 and 4, 5 and 6 belong to
// points ±p: they share the sums over even and over odd columns.
func byRows(a *isa.Asm, c constants, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	points := len(m)
	all := func(int) bool { return true }
	out(0, combine(a, c, m[0], in, all))
	for j := 1; j < points-1; j += 2 {
		even := combine(a, c, m[j], in, func(i int) bool { return i%2 == 0 })
		odd := combine(a, c, m[j], in, func(i int) bool { return i%2 == 1 })
		sum, diff := a.Vec(), a.Vec()
		a.Add(odd, even, sum)
		a.Sub(odd, even, diff)
		out(j, sum)
		out(j+1, diff)
	}
	out(points-1, combine(a, c, m[points-1], in, all))
}

// byCols multiplies with a matrix whose columns belong to points ±p: even rows
// need the sums of such pairs, odd rows the differences.
func byCols(a *isa.Asm, c constants, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	points := len(in)
	sums, diffs := make([]reg.VecVirtual, points), make([]reg.VecVirtual, points)
	sums[0], diffs[0], sums[points-1], diffs[points-1] = in[0], in[0], in[points-1], in[points-1]
	for j := 1; j < points-1; j += 2 {
		sums[j], diffs[j] = a.Vec(), a.Vec()
		a.Add(in[j+1], in[j], sums[j])
		a.Sub(in[j+1], in[j], diffs[j])
	}
	once := func(i int) bool { return i == 0 || i == points-1 || i%2 == 1 }
	for i, row := range m {
		if i%2 == 0 {
			out(i, combine(a, c, row, sums, once))
		} else {
			out(i, combine(a, c, row, diffs, once))
		}
	}
}

// strides addresses elements 0 to 10 at a distance that is known at run time only.
type strides [5]reg.GPVirtual // distance times 1, 3, 5, 7, 9

func newStrides(a *isa.Asm, t reg.GPVirtual, field int, n int) (s strides) {
	s[0] = a.Field(t, field)
	for i := 1; 2*i+1 < n; i++ {
		s[i] = a.GP64()
		a.LEAQ(operand.Mem{Base: s[i-1], Index: s[0], Scale: 2}, s[i])
	}
	return s
}

func (s strides) at(base reg.GPVirtual, i int) operand.Mem {
	if i == 0 {
		return operand.Mem{Base: base}
	}
	scale := uint8(1)
	for i%2 == 0 {
		i, scale = i/2, scale*2
	}
	return operand.Mem{Base: base, Index: s[i/2], Scale: scale}
}

type linear func(a *isa.Asm, c constants, m [][]float64, in []reg.VecVirtual, out func(i int, v reg.VecVirtual))

// transform emits out = M·in·Mᵀ for count squares of vectors: first down the
// columns into tmp, then along the rows.
func transform(a *isa.Asm, name, doc string, m [][]float64, apply linear) {
	to, from := len(m), len(m[0])
	c := newConstants(a, name)
	a.Kernel(name, "func(transform *byte)", "transforms "+doc+".")
	t := a.Gp("transform")
	rows, cols := newStrides(a, t, trInRow, from), newStrides(a, t, trOutCol, to)
	c.load(a, m)
	bothWays(a, t, to, from, func() strides { return rows }, func() strides { return cols },
		func(in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) { apply(a, c, m, in, out) })
}

// bothWays emits the loop over squares, and in it those over the columns and rows of one.
// rows and cols give the strides where a loop begins that needs them.
func bothWays(a *isa.Asm, t reg.GPVirtual, to, from int, rows, cols func() strides, apply func(in []reg.VecVirtual, out func(i int, v reg.VecVirtual))) {
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	p, q, left := a.GP64(), a.GP64(), a.GP64()
	v := a.Vecs(from)
	lines := func(label string, n int, src, dst operand.Mem, inPart reg.GPVirtual, load, store func(i int) operand.Mem, next func()) {
		a.MOVQ(src, p)
		a.MOVQ(dst, q)
		addPart(a, t, inPart)
		a.MOVQ(operand.U64(n), left)
		a.Label(label)
		for i := range from {
			a.Move(load(i), v[i])
		}
		apply(v, func(i int, r reg.VecVirtual) { a.Move(r, store(i)) })
		next()
		a.CountDown(left, label)
	}

	a.Label("square")
	in := rows()
	lines("down", from, field(trIn), field(trTmp), p, func(i int) operand.Mem { return in.at(p, i) },
		func(i int) operand.Mem { return operand.Mem{Base: q, Disp: i * from * vectorBytes(a)} }, func() {
			a.ADDQ(field(trInCol), p)
			a.ADDQ(operand.U8(vectorBytes(a)), q)
		})
	out := cols()
	lines("along", to, field(trTmp), field(trOut), q, func(i int) operand.Mem { return operand.Mem{Base: p, Disp: i * vectorBytes(a)} },
		func(i int) operand.Mem { return out.at(q, i) }, func() {
			a.ADDQ(operand.U32(from*vectorBytes(a)), p)
			a.ADDQ(field(trOutRow), q)
		})
	nextPart(a, t, "square")
	a.MOVQ(field(trInStep), p)
	a.ADDQ(p, field(trIn))
	a.MOVQ(field(trOutStep), p)
	a.ADDQ(p, field(trOut))
	a.CountDown(field(trCount), "square")
	a.Ret()
}

// vectorBytes is the bytes of a register.
func vectorBytes(a *isa.Asm) int { return 4 * a.Lanes }

// addPart moves an address on to the part of the 16 channels that is being transformed:
// one register after the other.
func addPart(a *isa.Asm, t, p reg.GPVirtual) {
	if a.Lanes < channelBlock {
		a.ADDQ(operand.Mem{Base: t, Disp: trPart}, p)
	}
}

// nextPart goes back to label for the next part, and behind the last one on.
func nextPart(a *isa.Asm, t reg.GPVirtual, label string) {
	if a.Lanes == channelBlock {
		return
	}
	part := operand.Mem{Base: t, Disp: trPart}
	a.ADDQ(operand.U8(vectorBytes(a)), part)
	a.CMPQ(part, operand.U8(lanesBytes))
	a.JL(operand.LabelRef(label))
	a.MOVQ(operand.U32(0), part)
}

// pointTile emits C = A·B, or C += A·B, for count times some rows and one or two blocks
// of columns, unroll products at a time.
func pointTile(a *isa.Asm, name string, row, step, rows, blocks, unroll int) {
	a.Kernel(name, "func(pointTile *byte)", fmt.Sprintf("multiplies rows, %d bytes apart, with %d blocks of 16, %d rows at a time.", row, blocks, rows))
	t := a.Gp("pointTile")
	field := func(offset int) operand.Mem { return operand.Mem{Base: t, Disp: offset} }
	jump, pa, left, steps := a.Field(t, ptJump), a.GP64(), a.GP64(), a.GP64()
	b, c := []reg.GPVirtual{a.GP64()}, []reg.GPVirtual{a.Field(t, ptC0)}
	if blocks == 2 {
		b, c = append(b, a.GP64()), append(c, a.Field(t, ptC1))
	}
	parts := channelBlock / a.Lanes
	vecs := blocks * parts
	of := func(base []reg.GPVirtual, j, disp int) operand.Mem { // vector j of a row
		return operand.Mem{Base: base[j/parts], Disp: disp + j%parts*vectorBytes(a)}
	}
	acc, products := a.Vecs(rows*vecs), pointProducts(a, rows, vecs)
	a.Label("rows")
	a.MOVQ(field(ptA), pa)
	a.MOVQ(field(ptBlocks), left)
	for j := range b {
		a.MOVQ(field(ptB0+8*j), b[j])
	}
	for _, v := range acc {
		a.Zero(v)
	}
	a.Label("block")
	a.MOVQ(field(ptSteps), steps)
	a.Label("steps")
	for u := range unroll {
		products(func(i int) operand.Mem { return operand.Mem{Base: pa, Disp: i*row + u*step} }, func(j int) operand.Mem { return of(b, j, u*lanesBytes) }, acc)
	}
	a.ADDQ(operand.U32(unroll*step), pa)
	for j := range b {
		a.ADDQ(operand.U32(unroll*lanesBytes), b[j])
	}
	a.SUBQ(operand.U8(unroll), steps)
	a.JNZ(operand.LabelRef("steps"))
	a.ADDQ(jump, pa)
	a.CountDown(left, "block")
	a.CMPQ(field(ptAdd), operand.U8(0))
	a.JEQ(operand.LabelRef("store"))
	for i, v := range acc {
		a.Add(of(c, i%vecs, i/vecs*lanesBytes), v, v)
	}
	a.Label("store")
	for i, v := range acc {
		a.Move(v, of(c, i%vecs, i/vecs*lanesBytes))
	}
	for j := range c {
		a.ADDQ(field(ptCStep), c[j])
	}
	a.MOVQ(field(ptAStep), pa)
	a.ADDQ(pa, field(ptA))
	a.DECQ(field(ptCount))
	a.JNZ(operand.LabelRef("rows"))
	a.Ret()
}

// pointProducts is what adds the products of elements of A, one a row, with vectors of B, to sums [rows][vecs]. Vectors of B stay in registers, or
// where there are too few for all of them, the elements of A.
func pointProducts(a *isa.Asm, rows, vecs int) func(element, vector func(int) operand.Mem, sums []reg.VecVirtual) {
	if vecs == 1 {
		v := a.Vec()
		return func(element, vector func(int) operand.Mem, sums []reg.VecVirtual) {
			a.Move(vector(0), v)
			for i := range rows {
				a.VFMADD231PS_BCST(element(i), v, sums[i])
			}
		}
	}
	if rows*vecs+vecs+1 > a.Registers() {
		v, w := a.Vec(), a.Vecs(rows)
		return func(element, vector func(int) operand.Mem, sums []reg.VecVirtual) {
			for i := range w {
				a.Spread(element(i), w[i])
			}
			for j := range vecs {
				a.Move(vector(j), v)
				for i := range rows {
					a.Fma(v, w[i], sums[i*vecs+j])
				}
			}
		}
	}
	v, w := a.Vecs(vecs), a.Vecs(2)
	return func(element, vector func(int) operand.Mem, sums []reg.VecVirtual) {
		for j := range vecs {
			a.Move(vector(j), v[j])
		}
		for i := range rows {
			a.Spread(element(i), w[i%2])
			for j := range vecs {
				a.Fma(v[j], w[i%2], sums[i*vecs+j])
			}
		}
	}
}

// planesToLanes emits the copy of rows of up to 16 pixels of 16 planes to vectors of 16 channels.
func planesToLanes(a *isa.Asm) {
	a.Kernel("planesToLanes", "func(rows int, src *float32, plane, width int, mask uintptr, dst *float32, stride, ahead int)",
		"gathers 16 planes into vectors of 16 channels, and prefetches what lies ahead. plane, width, stride and ahead are bytes.")
	if a.Lanes < channelBlock {
		fromPlanesByEight(a, rowLoads{ // the first AMD processors with AVX2 take ten cycles for a masked load
			size:   4,
			first:  func(p operand.Mem, mask, v reg.VecVirtual) { a.VMASKMOVPS(p, mask, v) },
			direct: true,
		})
		return
	}
	fromPlanes(a, func(p operand.Mem, k reg.Register, v reg.VecVirtual) { a.VMOVUPS_Z(p, k, v) })
}

// fromPlanes is the loop of planesToLanes; load widens what a row of a plane has.
func fromPlanes(a *isa.Asm, load func(p operand.Mem, k reg.Register, v reg.VecVirtual)) {
	rows, src, plane, width, dst, stride, ahead := a.Gp("rows"), a.Gp("src"), a.Gp("plane"), a.Gp("width"), a.Gp("dst"), a.Gp("stride"), a.Gp("ahead")
	k, p := a.K(), a.GP64()
	a.KMOVW(a.Gp("mask").As32(), k)
	a.Label("row")
	a.MOVQ(src, p)
	v := a.Vecs(16)
	for i := range v {
		a.PREFETCHT1(operand.Mem{Base: p, Index: ahead, Scale: 1})
		load(operand.Mem{Base: p}, k, v[i])
		a.ADDQ(plane, p)
	}
	for i, x := range a.Transpose16(v) {
		a.Move(x, operand.Mem{Base: dst, Disp: i * lanesBytes})
	}
	a.Advance(width, src)
	a.Advance(stride, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// lanesToPlanes emits the way back, with an addend per channel.
func lanesToPlanes(a *isa.Asm) {
	a.Kernel("lanesToPlanes", "func(rows int, src *float32, stride int, bias *float32, dst *float32, plane, width int, mask uintptr)",
		"scatters vectors of 16 channels, plus bias, over 16 planes. stride, plane and width are bytes.")
	if a.Lanes < channelBlock {
		p, bias := a.Gp("bias"), a.Vecs(2)
		for i, b := range bias {
			a.Move(operand.Mem{Base: p, Disp: i * vectorBytes(a)}, b)
		}
		toPlanesByEight(a, func(m operand.Mem, part int, v reg.VecVirtual) { a.Add(m, bias[part], v) }, rowStore{piece: a.StorePiece, size: 4})
		return
	}
	bias := a.Vec()
	a.Move(operand.Mem{Base: a.Gp("bias")}, bias)
	toPlanes(a, func(m operand.Mem, v reg.VecVirtual) { a.VADDPS(m, bias, v) }, func(m operand.Mem, k reg.Register, v reg.VecVirtual) { a.VMOVUPS(v, k, m) })
}

// lanesOntoPlanes emits the way back that adds to what is there.
func lanesOntoPlanes(a *isa.Asm) {
	a.Kernel("lanesOntoPlanes", "func(rows int, src *float32, stride int, dst *float32, plane, width int, mask uintptr)",
		"adds vectors of 16 channels to 16 planes. stride, plane and width are bytes.")
	if a.Lanes < channelBlock {
		toPlanesByEight(a, func(m operand.Mem, _ int, v reg.VecVirtual) { a.Move(m, v) }, rowStore{
			whole: func(v reg.VecVirtual, m operand.Mem) { addPiece(a, v, half, m) },
			piece: func(v reg.VecVirtual, n int, m operand.Mem) { addPiece(a, v, n, m) },
			size:  4,
		})
		return
	}
	toPlanes(a, func(m operand.Mem, v reg.VecVirtual) { a.Move(m, v) }, func(m operand.Mem, k reg.Register, v reg.VecVirtual) {
		a.VADDPS(m, v, k, v)
		a.VMOVUPS(v, k, m)
	})
}

// toPlanes emits the loop over rows: load reads a vector of channels, store writes
// a row of a plane, and the next 16 planes are prefetched.
func toPlanes(a *isa.Asm, load func(operand.Mem, reg.VecVirtual), store func(m operand.Mem, k reg.Register, v reg.VecVirtual)) {
	rows, src, stride, dst, plane, width := a.Gp("rows"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Gp("plane"), a.Gp("width")
	k, p, next := a.K(), a.GP64(), a.GP64()
	a.KMOVW(a.Gp("mask").As32(), k)
	a.MOVQ(plane, next)
	a.SHLQ(operand.U8(4), next)
	a.Label("row")
	v := a.Vecs(16)
	for i := range v {
		load(operand.Mem{Base: src, Disp: i * lanesBytes}, v[i])
	}
	a.MOVQ(dst, p)
	for _, x := range a.Transpose16(v) {
		a.PREFETCHT1(operand.Mem{Base: p, Index: next, Scale: 1})
		store(operand.Mem{Base: p}, k, x)
		a.ADDQ(plane, p)
	}
	a.ADDQ(stride, src)
	a.ADDQ(width, dst)
	a.CountDown(rows, "row")
	a.Ret()
}
