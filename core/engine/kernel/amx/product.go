package amx

import "github.com/trainctl/trainctl/core/engine/kernel"

// The largest tile.
const (
	Rows  = 16 // of A and of C
	Cols  = 16 // of B and of C
	Pairs = 16 // of elements in a row of A, and rows of B
)

// Step is where the tiles of a step lie: bytes from A, and from B.
type Step struct{ A, B int32 }

// Product is one or two tiles of A, one below the other, by one or two of B, beside each other, summed over steps. It does that
// Count times, for other columns of B each time. Distances are bytes. SetTiles sets what is not exported. The layout is what
// gen/amx says. A, B and C may be any memory that stays where it is during Run.
type Product struct {
	config [64]byte
	Count  int // ≥ 1
	Steps  int // ≥ 1
	Add    int // 1 adds to C
	Off    *Step
	A      *uint16
	ARow   int // from a row of a tile to the next
	ANext  int // to the second tile
	B      *uint16
	BRow   int
	BNext  int
	BMove  int // to the columns of the next time
	C      *float32
	CRow   int
	cDown  int
	CNext  int // to the second tile beside the first
	CMove  int

	rows, cols int // tiles
}

// SetTiles says that A has up to 32 rows, B and C up to 32 columns, and a step up to 16 pairs. CRow is set before.
func (p *Product) SetTiles(rows, cols, pairs int) {
	p.rows, p.cols, p.cDown = 1, 1, Rows*p.CRow
	if rows > Rows {
		p.rows = 2
	}
	if cols > Cols {
		p.cols = 2
	}
	const sums, a, b = 0, 4, 6
	p.config[0] = 1 // the palette
	for i := range 2 {
		height := min(max(rows-i*Rows, 0), Rows)
		p.tile(a+i, height, 4*pairs)
		for j := range 2 {
			width := 4 * min(max(cols-j*Cols, 0), Cols)
			p.tile(sums+2*i+j, height, width)
			p.tile(b+j, pairs, width)
		}
	}
}

// tile sets the size of a register: none if it is empty.
func (p *Product) tile(i, rows, bytes int) {
	if rows == 0 || bytes == 0 {
		rows, bytes = 0, 0
	}
	p.config[48+i], p.config[16+2*i] = byte(rows), byte(bytes)
}

// Run computes it.
func (p *Product) Run() {
	switch {
	case emulated:
		p.emulate()
	case p.rows == 1 && p.cols == 1:
		vecProduct1x1(p)
	case p.rows == 1:
		vecProduct1x2(p)
	case p.cols == 1:
		vecProduct2x1(p)
	default:
		vecProduct2x2(p)
	}
}

// MultiplyAdds runs rounds of products that stay in registers, and returns how many operations that was, a multiplication and an
// addition as two. It is for measuring what a core allows.
func MultiplyAdds(rounds int) (flops int64) {
	const each = 4 * Rows * Cols * 2 * Pairs * 2
	p := Product{Count: rounds}
	p.SetTiles(2*Rows, 2*Cols, Pairs)
	vecPeak(&p)
	return int64(rounds) * each
}

// RoundRows writes rows of n sums, at least one, plus bias as bfloat16. Rows lie so many bytes apart. It reads up to 15 sums more.
func RoundRows(rows, n int, x *float32, xRow int, bias float32, y *uint16, yRow int) {
	vecRoundRows(rows, n, x, xRow, bias, y, yRow)
}

// RoundPairs is RoundRows without a bias, for the columns of a stride of two: n elements of a row are from left and from right in turn.
func RoundPairs(rows, n int, left, right *float32, xRow int, y *uint16, yRow int) {
	vecRoundPairs(rows, n, left, right, xRow, y, yRow)
}

// SplitPairs makes pairs of up to 32 elements of even rows and as many of odd ones: of those with even numbers to left, of the others to
// right, 16 of each, zeros behind the last. stride, from row to row, and step are bytes.
func SplitPairs(rows, n int, even, odd *uint16, stride int, left, right *float32, step int) {
	vecSplitPairs(rows, even, odd, stride, kernel.Mask(1)<<n-1, left, right, step)
}

// SplitWords copies up to 32 elements of rows in the same way.
func SplitWords(rows, n int, src *uint16, stride int, left, right *uint16, step int) {
	vecSplitWords(rows, src, stride, kernel.Mask(1)<<n-1, left, right, step)
}
