package gemm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// strip is a call of a kernel of matrix products: tiles of C one below the
// other, from two vectors of columns of B or one. There are four forms:
//
//   - along: for each k, A's values of all rows lie side by side, and those of the
//     next k aStep bytes later: a packed panel, or a matrix that is transposed anyway.
//   - across: A's rows lie aStep bytes apart as they do in a matrix, and the tile is
//     transposed before it is written, so that its columns become rows of C.
//   - apart: A's rows lie as across has them, and C is written as along writes it.
//   - narrow: as across with A and B in each other's place, for few columns of C: A's rows go to the lanes, transposed on the
//     way, and those of B lie as along has A's.
//
// The layout is known to gen/gemm/product.go.
type strip struct {
	k, tiles     int
	a            *float32
	aStep, aNext int // bytes; aNext to the next tile
	b            *float32
	bStep        int // along and apart: bytes between the k of B
	c            *float32
	ldc          int         // bytes between rows of C
	n0, n1       kernel.Mask // along and apart: columns of each vector. across: n0 rows of C, n1 the lanes of a tile's height. narrow: n1 columns of C
	gate         *float32    // along: laid out as C, or nil; elements of C are 0 where it is not above 0
	bias         *float32    // across and narrow: what each row of A, or column of C, starts at. apart: the vectors that each row of C starts at
	biasNext     int         // across: bytes to the next tile's
	add          kernel.Mask // along, apart and narrow: 1 adds to C. across: the lanes to add
	floor        float32     // across and narrow: the least value
	tail         kernel.Mask // narrow: what counts of a row's last vector
	// Bytes to what is prefetched of each matrix. Apart and narrow leave short rows to the hardware if aheadA is 0.
	aheadA, aheadB, aheadC int
	far                    int // along: in how many of the k of the sum, which are fewer than all
}

// Finish is what a matrix product does to C in the same pass.
type Finish[T kernel.Float] struct {
	Bias []T // n addends, one per column; nil for none
	ReLU bool
	Gate []T // laid out as C; where it is ≤ 0, C becomes 0, as ReLUGrad does. nil for none
}

func (f *Finish[T]) apply(m, n int, c []T, ldc int) {
	for i := range m {
		row := c[i*ldc:][:n]
		if f.Bias != nil {
			elementwise.AddTo(row, f.Bias)
		}
		if f.ReLU {
			elementwise.ReLU(row, row)
		}
		if f.Gate != nil {
			elementwise.ReLUGrad(f.Gate[i*ldc:][:n], row, row)
		}
	}
}

// product is a matrix product in float32 at a level with vectors.
type product struct {
	gemmCall[float32]
	f           Finish[float32]
	startAtBias bool // along: C's rows begin as the bias
	packedCols  int  // apart: columns of B that are packed, where more are than C has
}

// asProduct views a call whose T is float32.
func asProduct[T kernel.Float](g *gemmCall[T], f Finish[T]) product {
	view := func(s strided[T]) strided[float32] { return strided[float32]{kernel.As32(s.data), s.row, s.col} }
	return product{
		gemmCall: gemmCall[float32]{
			TileShape: g.TileShape, m: g.m, n: g.n, k: g.k, alpha: float32(g.alpha),
			a: view(g.a), b: view(g.b), c: kernel.As32(g.c), ldc: g.ldc, add: g.add,
		},
		f: Finish[float32]{Bias: kernel.As32(f.Bias), ReLU: f.ReLU, Gate: kernel.As32(f.Gate)},
	}
}

// Blocks of products: A's block stays in the L2 cache, and so does a panel of B.
const (
	blockA   = 1 << 16 // elements of A, across
	deepest  = 512     // of k, across; longer sums in one register round visibly worse
	shallow  = 16      // of k, across: transposing a tile's sums takes longer than so many products; apart need not
	packFrom = 128     // rows of C from which it pays to pack B
	packMany = 1 << 18 // elements of B from which it pays for fewer rows: they are not in the L2 cache, and hardware does not prefetch across rows
	fewRows  = 48      // rows of C up to which it does not, if rows of B are short
	shortRow = 256     // elements of such a row
	packWide = 8       // panels of B from which it pays to pack an A that lies as if packed, but does not stay in L1
	packFar  = 1 << 19 // elements of such an A from which it pays with fewer panels and wide vectors: they are not in the L2 cache
	longRow  = 128     // elements of its rows, of which a tile takes a line each
	fewSums  = 1 << 11 // elements of C up to which blocks of a B that is not packed are prefetched a block ahead
	farB     = 1 << 20 // elements of such a B from which it pays
	nearN    = 512     // columns of B whose panels are multiplied soon after they are packed
)

// run takes the form that suits how the matrices lie. With k along the rows of
// both, one of them has to be transposed: apart transposes B, the weights, and across A, the batch. All
// add up in the order of k.
func (p *product) run(scratch []float32) {
	p.TileShape = tileFor(p.n)
	if p.alpha == 1 && p.a.col == 1 && p.f.Gate == nil {
		switch {
		case p.narrow():
			p.runNarrow(scratch)
			return
		case p.b.row == 1 && (p.f.ReLU || p.n > p.m && p.k > shallow):
			p.TileShape = tileFor(p.m)
			p.runAcross(scratch)
			return
		case p.b.row == 1:
			p.runApart(p.deepest(), scratch)
			return
		case p.f.Bias == nil && !p.f.ReLU && p.rowsApart(p.a.row) == p.Rows:
			p.runApart(p.deepest(), scratch)
			return
		}
	}
	if p.turns() {
		p.runTurned(scratch)
		return
	}
	after := p.f
	if p.startAtBias = after.Bias != nil && !p.add; p.startAtBias {
		after.Bias = nil
	}
	if after.Bias != nil || after.ReLU {
		p.f.Gate = nil
	} else {
		after.Gate = nil
	}
	p.runAlong(scratch)
	after.apply(p.m, p.n, p.c, p.ldc)
}

// deepest is how much of k registers add up where A's rows lie apart.
func (p *product) deepest() int {
	if p.b.row == 1 {
		return deepest
	}
	return BlockK
}

// tileFor is the tile for a matrix of so many columns, which half of a vector may hold.
func tileFor(columns int) TileShape {
	if narrow := TileShapes[kernel.AVX2]; columns <= narrow.Lanes && kernel.Wide() && kernel.Halves() {
		return TileOf(narrow.Lanes)
	}
	return TileOf(kernel.Lanes())
}

// noBias is where sums start that have none.
var noBias [maxTileRows]float32

// runAcross computes Cᵀ = B·Aᵀ from B as it lies, and A transposed into panels.
func (p *product) runAcross(scratch []float32) {
	depth, height := EvenRows(p.k, deepest), EvenRows(p.n, p.rowsApart(p.b.col))
	slab := min(p.n, max(1, blockA/(depth*height))*height)
	for i := 0; i < p.m; i += blockN {
		rows := min(blockN, p.m-i)
		for l := 0; l < p.k; l += depth {
			kc := min(depth, p.k-l)
			PackPanels(p.TileShape, p.a.data[i*p.a.row+l:], p.a.row, 1, rows, kc, p.cols, scratch)
			for j := 0; j < p.n; j += slab {
				p.acrossSlab(i, rows, l, kc, j, min(slab, p.n-j), height, scratch)
			}
		}
	}
}

// rowsApart is how high tiles may be whose rows lie so many elements apart: those that lie a multiple of
// a page apart all want the same eight lines of the L1 cache.
func (p *product) rowsApart(stride int) int {
	const page, ways = 4096 / 4, 8
	if stride%page == 0 {
		return min(p.Rows, ways-1)
	}
	return p.Rows
}

// acrossSlab multiplies n rows of B from j on with the packed rows of A from i on.
func (p *product) acrossSlab(i, m, l, kc, j, n, height int, packed []float32) {
	t := strip{k: kc, aStep: 4 * p.b.col, ldc: 4 * p.ldc, bias: &noBias[0], floor: float32(math.Inf(-1))}
	if p.f.ReLU && l+kc == p.k {
		t.floor = 0
	}
	for r := 0; r < m; r += p.cols {
		width := min(p.cols, m-r)
		t.b, t.n0 = &packed[r*kc], kernel.Mask(width)
		for q, rows := 0, 0; q < n; q += rows * t.tiles {
			rows, t.tiles = tilesOf(n-q, height)
			t.a, t.aNext = &p.b.data[(j+q)*p.b.col+l], 4*rows*p.b.col
			t.c, t.n1 = &p.c[(i+r)*p.ldc+j+q], p.Mask(rows)
			if p.f.Bias != nil && l == 0 {
				t.bias, t.biasNext = &p.f.Bias[j+q], 4*rows
			}
			if t.add = p.Mask(0); p.add || l > 0 {
				t.add = t.n1
			}
			runAcross(p.Lanes, rows, p.vectors(width), &t)
		}
	}
}

// runApart computes C = A·B from A as it lies. Registers add up at most most of k.
func (p *product) runApart(most int, scratch []float32) {
	depth, height := EvenRows(p.k, most), EvenRows(p.m, p.rowsApart(p.a.row))
	slab := blockRows(p.m, p.n, min(p.m, max(1, blockA/(depth*height))*height), height, tallRows)
	p.overBlocks(slab, depth, scratch, func(b block) { p.apartSlab(b, height) })
}

// How far ahead A and C are prefetched in tiles, where their rows are short, and along A and B in steps of k. Hardware
// that finds streams does not look as far.
const (
	apartAheadA = 8
	apartAheadC = 4
	alongAhead  = 64
	blockAhead  = 1 << 18 // bytes that a block and the next one may have, so that both stay in the L2 cache
)

// shortAndFar reports whether rows of A and C are so short that a tile's are few lines of the cache, and too many to be in it.
func (p *product) shortAndFar() bool {
	const row, cache = 256 / 4, 1 << 20 / 4
	return p.a.row <= row && p.ldc <= row && p.m*(p.a.row+p.ldc) > cache
}

// apartSlab multiplies a block in tiles of a height.
func (p *product) apartSlab(b block, height int) {
	var bias [maxTileCols]float32
	t := strip{k: b.k, aStep: 4 * p.a.row, ldc: 4 * p.ldc, bias: &bias[0]}
	if p.add || b.l > 0 {
		t.add = 1
	}
	far := p.shortAndFar()
	for r := 0; r < b.n; r += p.cols {
		vectors := p.panel(&t, b, r)
		if p.f.Bias != nil && b.l == 0 {
			copy(bias[:], p.f.Bias[b.j+r:b.j+min(b.n, r+p.cols)])
		}
		for q, rows := 0, 0; q < b.m; q += rows * t.tiles {
			rows, t.tiles = tilesOf(b.m-q, height)
			t.a, t.aNext = &p.a.data[(b.i+q)*p.a.row+b.l], 4*rows*p.a.row
			t.c = &p.c[(b.i+q)*p.ldc+b.j+r]
			if far {
				t.aheadA, t.aheadC = apartAheadA*t.aNext, apartAheadC*rows*t.ldc
			}
			runApart(p.Lanes, rows, vectors, &t)
		}
	}
}

// panel tells a strip where its columns of B are, from r on of a block's: in B itself or in panels. It returns how many vectors they are.
func (p *product) panel(t *strip, b block, r int) (vectors int) {
	width := min(p.cols, b.n-r)
	t.n0, t.n1 = p.Mask(min(width, p.Lanes)), p.Mask(max(width-p.Lanes, 0))
	if vectors = p.vectors(width); r < b.packed {
		t.b, t.bStep = &p.b.data[b.l*p.b.row+b.j+r], 4*p.b.row
	} else {
		step := p.vectors(min(p.cols, max(b.n, p.packedCols)-r))
		t.b, t.bStep = &b.panels[(r-b.packed)*b.k], 4*p.Lanes*step
	}
	return vectors
}

// PackRows packs m rows of k elements, lda apart, for AddPacked and MulPacked: to PackedElems(m, k) elements.
func PackRows(m, k int, a []float32, lda int, packed []float32) {
	s, depth := shapeOf[float32](), EvenRows(k, deepest)
	for l := 0; l < k; l += depth {
		PackPanels(s, a[l:], lda, 1, m, min(depth, k-l), s.cols, packed[l*packedRows(m):])
	}
}

// packedRows is how many rows the panels of m rows have room for.
func packedRows(m int) int { return kernel.CeilDiv(m, kernel.Lanes()) * kernel.Lanes() }

// PackedElems is the room for m packed rows of k elements, with what packing writes beyond their end.
func PackedElems(m, k int) int { return packedRows(m)*k + packSlack }

// AddPacked adds A·Bᵀ to C, which is m×n: A is the m packed rows of k elements, B's n rows lie ldb apart.
func AddPacked(m, n, k int, packed, b []float32, ldb int, c []float32, ldc int) {
	p := product{gemmCall: gemmCall[float32]{TileShape: shapeOf[float32](), m: m, n: n, k: k, b: strided[float32]{b, 1, ldb}, c: c, ldc: ldc, add: true}}
	height, depth := EvenRows(n, p.rowsApart(ldb)), EvenRows(k, deepest)
	for l := 0; l < k; l += depth {
		p.acrossSlab(0, m, l, min(depth, k-l), 0, n, height, packed[l*packedRows(m):])
	}
}

// MulPacked computes C = A·Bᵀ, which is m×n: A's m rows of k elements lie lda apart, and B is the first n of so many packed
// rows. It adds up in Gemm's order.
func MulPacked(m, n, k int, a []float32, lda int, packed []float32, rows int, c []float32, ldc int) {
	p := product{gemmCall: gemmCall[float32]{TileShape: shapeOf[float32](), m: m, n: n, k: k, a: strided[float32]{a, lda, 1}, c: c, ldc: ldc}, packedCols: rows}
	height, depth := EvenRows(m, p.rowsApart(lda)), EvenRows(k, deepest)
	for l := 0; l < k; l += depth {
		p.apartSlab(block{m: m, l: l, k: min(depth, k-l), n: n, panels: packed[l*packedRows(rows):]}, height)
	}
}

// tilesOf says how high the next tiles of n rows are, and how many: all that
// have the full height, or the one that is lower.
func tilesOf(n, height int) (rows, tiles int) {
	if n < height {
		return n, 1
	}
	return height, n / height
}

// vectors is how many it takes to hold that many columns.
func (s TileShape) vectors(cols int) int {
	if cols <= s.Lanes {
		return 1
	}
	return 2
}

// runAlong computes C = A·B with A packed, unless it lies as if it were.
func (p *product) runAlong(scratch []float32) {
	height, mc, depth, packedA, packedB := cut(p.m, p.k, p.Rows, scratch)
	most := tallRows
	if p.k <= shortSum {
		most = flatRows
	}
	mc = blockRows(p.m, p.n, mc, height, most)
	p.overBlocks(mc, depth, packedB, func(b block) { p.alongBlock(b, height, packedA) })
}

// block is what is multiplied at once: rows i to i+m of A, l to l+k of its columns, and j to j+n of B's.
type block struct {
	i, m, l, k, j, n int
	packed           int       // the column from which on B lies in panels, and not as it is
	panels           []float32 // of these columns
	again            bool      // A's part is that of the block before
}

// overBlocks calls f for the blocks of a product, of at most so many rows and so much depth. B is taken as it lies, if that is along its rows and few
// rows of C need it. If all rows of A are one block, that is packed once for narrower blocks of B, which are still in the L2 cache when they are multiplied.
func (p *product) overBlocks(rows, depth int, panels []float32, f func(b block)) {
	if p.m <= rows && p.many() && p.packedFrom(p.n) == 0 {
		for l := 0; l < p.k; l += depth {
			for j := 0; j < p.n; j += nearN {
				b := block{m: p.m, l: l, k: min(depth, p.k-l), j: j, n: min(nearN, p.n-j), panels: panels, again: j > 0}
				p.packPanels(l, b.k, j, b.n, panels)
				f(b)
			}
		}
		return
	}
	for j := 0; j < p.n; j += blockN {
		b := block{j: j, n: min(blockN, p.n-j), panels: panels}
		b.packed = p.packedFrom(b.n)
		for b.l = 0; b.l < p.k; b.l += depth {
			if b.k = min(depth, p.k-b.l); b.packed < b.n {
				p.packPanels(b.l, b.k, j+b.packed, b.n-b.packed, panels)
			}
			for b.i = 0; b.i < p.m; b.i += rows {
				b.m = min(rows, p.m-b.i)
				f(b)
			}
		}
	}
}

// packPanels packs rows l to l+k of columns j to j+n of B.
func (p *product) packPanels(l, k, j, n int, panels []float32) {
	PackPanels(p.TileShape, p.b.data[l*p.b.row+j*p.b.col:], p.b.col, p.b.row, n, k, p.cols, panels)
}

// packedFrom is the column of B's block from which on it is packed: the first, or
// that of a panel whose vectors are not whole.
func (p *product) packedFrom(n int) int {
	if p.b.col != 1 || p.m >= packFrom || p.many() && !(p.m <= fewRows && p.b.row <= shortRow) {
		return 0
	}
	if n%p.cols == p.Lanes { // the last panel is one whole vector
		return n
	}
	return n / p.cols * p.cols
}

// many reports whether rows of B are too many for the L2 cache.
func (p *product) many() bool { return p.b.col == 1 && p.k*p.n >= packMany }

// alongBlock multiplies a block in tiles of a height.
func (p *product) alongBlock(b block, height int, packedA []float32) {
	t := strip{k: b.k, ldc: 4 * p.ldc}
	if p.startAtBias && b.l == 0 {
		for row := b.i; row < b.i+b.m; row++ {
			copy(p.c[row*p.ldc+b.j:][:b.n], p.f.Bias[b.j:])
		}
	}
	if p.add || p.startAtBias || b.l > 0 {
		t.add = 1
	}
	inPlace := p.a.row == 1 && p.alpha == 1 && (min(p.n, blockN) < packWide*p.cols && !p.farRows() || stays(b.k, p.a.col))
	if !inPlace && !b.again {
		p.packA(b.i, b.l, b.m, b.k, height, packedA)
	}
	for r := 0; r < b.n; r += p.cols {
		vectors := p.panel(&t, b, r)
		for q, rows := 0, 0; q < b.m; q += rows * t.tiles {
			rows, t.tiles = tilesOf(b.m-q, height)
			if inPlace {
				t.a, t.aStep, t.aNext = &p.a.data[b.i+q+b.l*p.a.col], 4*p.a.col, 4*rows
			} else {
				t.a, t.aStep, t.aNext = &packedA[q*b.k], 4*rows, 4*rows*b.k
			}
			if t.far = 0; inPlace && r < b.packed {
				p.lookAhead(&t, p.k-b.l-b.k)
			}
			at := (b.i+q)*p.ldc + b.j + r
			t.c = &p.c[at]
			if p.f.Gate != nil && b.l+b.k == p.k {
				t.gate = &p.f.Gate[at]
			}
			runAlong(p.Lanes, rows, vectors, &t)
		}
	}
}

// lookAhead says how far ahead a strip prefetches A and B, which lie as if packed: some k or, where k runs over rows of a B in
// memory whose lines the panels take by turns, the next block's, of which more is left. Each panel then finds its lines in
// the L2 cache, which it would otherwise wait for one by one, since hardware does not follow so many short streams.
func (p *product) lookAhead(t *strip, left int) {
	ahead, far := alongAhead, t.k-alongAhead // what lies behind the matrices may be in no page, which takes long to be found out
	if left > 0 && p.farColumns() && 2*t.k*t.bStep <= blockAhead {
		ahead, far = t.k, min(left, t.k-1)
	}
	t.aheadA, t.aheadB, t.far = ahead*t.aStep, ahead*t.bStep, max(0, far)
}

// farColumns reports whether k runs over so many rows of B that they are in no cache, for a C so small that
// multiplying takes no longer than fetching them.
func (p *product) farColumns() bool {
	return p.Lanes < kernel.Block && p.m*p.n <= fewSums && p.k*p.b.row >= farB
}

// farRows reports whether rows of an A that lies as if packed are long, and too many to be in a cache.
func (p *product) farRows() bool {
	return p.Lanes == kernel.Block && p.a.col >= longRow && p.m*p.k > packFar
}

// stays reports whether a line of each of k rows so many elements apart stays in the L1 cache: rows 512 elements apart share
// two of its sets.
func stays(k, stride int) bool {
	const line, sets, ways = 64 / 4, 64, 8
	apart := 1
	if lines := stride / line; stride%line == 0 {
		apart = min(sets, lines&-lines) // the largest power of two in lines
	}
	return k <= sets/apart*ways
}

// packA is the packing of A's block.
func (p *product) packA(i, l, m, k, height int, dst []float32) {
	if p.alpha != 1 {
		packA(p.a, i, l, m, k, height, p.alpha, dst)
		return
	}
	PackPanels(p.TileShape, p.a.data[i*p.a.row+l*p.a.col:], p.a.row, p.a.col, m, k, height, dst)
}

// PackPanels copies a matrix of m×k, whose elements lie row and col apart, as
// panels of height rows, each k groups of one value per row. A panel of columns,
// which is as high as the tile is wide, is filled up to whole vectors; others are
// as high as the rows that are left.
func PackPanels(s TileShape, src []float32, row, col, m, k, height int, dst []float32) {
	packed := 0
	if row == 1 && height == 2*s.Lanes {
		packed = m / height * height
		packPairs(src, col, packed, k, height, dst)
	}
	for p := packed; p < m; p += height {
		rows := min(height, m-p)
		step := rows
		if height == s.cols {
			step = s.Lanes * s.vectors(rows)
		}
		for part := 0; part < rows; part += s.Lanes {
			n, from, to := min(s.Lanes, rows-part), &src[(p+part)*row], &dst[p*k+part]
			if row == 1 {
				packAlong(s.Lanes, k, from, 4*col, s.Mask(n), to, 4*step)
			} else {
				packAcross(s.Lanes, n, from, 4*row, k, s.Mask((k-1)%s.Lanes+1), to, 4*step)
			}
		}
	}
}

// packPairs copies k rows of whole panels of two vectors, some rows at a time along all panels: hardware follows so many streams,
// and they share no set of the L2 cache even if they lie a power of two apart.
func packPairs(src []float32, stride, columns, k, width int, dst []float32) {
	const streams = 24
	for l := 0; l < k; l += streams {
		for p := 0; p < columns; p += width {
			vecPackPair(min(streams, k-l), &src[p+l*stride], 4*stride, &dst[p*k+l*width])
		}
	}
}
