package planes

// columnTaps is how many taps that lie below each other the kernels take at most: they load a
// row of x once for all of them. planeViews is how many such columns those of weight
// gradients take, by their taps less one. Both are known to gen/conv/planes.go.
const columnTaps = 4

var planeViews = [columnTaps]int{9, 5, 3, 2}

// planeTile is a call of the micro-kernel for tiles of some rows by one vector, or, up to
// tilePairs rows, by two: y = bias + Σ weights·x. The first of the taps in a column sees x at the byte
// offset off, the others below it, as far apart as the tile's rows. Tiles lie in groups below each
// other, these in blocks beside each other, and those in images. The layout is known to gen/conv/planes.go.
type planeTile struct {
	images, xImage, yImage int // steps are bytes
	blocks, block, next    int // block is the step, and next the distance of the second vector
	groups, xGroup, yGroup int
	columns                [columnTaps]int // of one tap, of two, and so on; those of most taps come first
	off                    *int32          // for each column
	weights                *float32        // for each tap of each column
	bias                   float32
	x, y                   *float32
	xStep, yStep           int // between rows
	ahead                  int // how far beyond y to prefetch

	left, xAt, yAt, xBlock, yBlock int // room for the kernel
}

// tilePairs is how high tiles of two vectors are at most; tileRows the highest tile.
const (
	tilePairs = 4
	tileRows  = 8
)

// aheadBytes is how far ahead of what they write kernels prefetch.
const aheadBytes = 2 * 4096

// planeDots is a call of the micro-kernel of weight gradients: out [taps][views], the sums of dy·x over
// rows of images, for columns of some taps. The layout is known to gen/conv/planes.go.
type planeDots struct {
	images, xImage, dyImage int // what the steps of the blocks leave to the next image
	blocks, left, rows      int // left is room for the kernel
	xRow, dyRow             int // bytes
	dy                      *float32
	off, at                 int // off is 0, at room for the kernel
	out                     *float32
	x                       [9]*float32 // each column's first tap
}
