package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

// bilinear are the tables with which vector kernels enlarge planes bilinearly, and add up gradients of planes of twice the size. Vectors are
// whole: one that is longer than its row runs into what comes next, which the next ones overwrite, so the last rows of all planes are
// left to plain Go. Several goroutines may use the tables.
type bilinear struct {
	h, w, factor int
	mix          mixTile    // of a plane, all but where it lies
	lanes        int        // of a vector of an enlarged row
	gather       gatherTile // of a plane, all but where it lies
	gradLanes    int        // of a vector of gradients, 0 if plain Go adds them up
}

// mixTile is a call of the vector kernel that enlarges a plane. The layout of this and of what it points to is known to
// gen/norm/bilinear.go.
type mixTile struct {
	rows    int // of y
	x, y    *float32
	out     int // bytes between rows of y
	vectors int // of a row of y
	columns *mixedColumns
	lines   *mixedRow
}

// mixedColumns is where a vector of outputs begins, and the one with their inputs, in bytes; and for each lane which of these it takes, and
// how much of each.
type mixedColumns struct {
	from, to    int
	_           [6]int // what follows are whole cache lines
	low, high   [kernel.Block]int32
	rest, share [kernel.Block]float32
}

// mixedRow is where the two rows of x begin that a row of y is made of, in bytes, and how much it has of each.
type mixedRow struct {
	low, high   int
	rest, share float32
}

// gatherTile is a call of the vector kernel that adds up gradients. The layout of this and of what it points to is known to
// gen/norm/bilinear.go.
type gatherTile struct {
	rows    int // of dx
	dy      *float32
	line    int // bytes between rows of dy
	wide    int // vectors of a row of dy
	wideAt  *int
	lines   *gatheredRow
	sums    *float32 // of rows of dy, between two zeros
	dx      *float32
	out     int // bytes between rows of dx
	vectors int
	starts  *int
	weights *float32 // of each column of dx in the four columns that see it
	step    int      // bytes between those of these columns
	order   *int32
}

// gatheredRow says which rows of dy see a row of dx: where the first one begins, in bytes, and the weights.
type gatheredRow struct {
	first, count int
	weights      [4]float32
}

// newBilinear are the tables for planes of h×w with these taps, nil without vectors.
func newBilinear(h, w, factor int, rows, cols *taps[float32]) *bilinear {
	if kernel.Current() == kernel.Generic || factor < 2 {
		return nil
	}
	b := &bilinear{h: h, w: w, factor: factor, lanes: vectorFor(w * factor)}
	b.findMixed(rows, cols)
	if factor == 2 && 2*w >= vectorFor(w) {
		b.gradLanes = vectorFor(w)
		b.findGathered(rows, cols)
	}
	return b
}

func (b *bilinear) findMixed(rows, cols *taps[float32]) {
	width := b.w * b.factor
	var columns []mixedColumns
	for _, to := range starts(width, b.lanes) {
		from := max(0, min(cols.low[to], b.w-b.lanes))
		c := mixedColumns{from: 4 * from, to: 4 * to}
		for lane := range b.lanes {
			j := min(to+lane, width-1)
			c.low[lane], c.high[lane] = int32(cols.low[j]-from), int32(cols.high[j]-from)
			c.rest[lane], c.share[lane] = cols.rest[j], cols.share[j]
		}
		columns = append(columns, c)
	}
	lines := make([]mixedRow, len(rows.low))
	for i, low := range rows.low {
		lines[i] = mixedRow{4 * b.w * low, 4 * b.w * rows.high[i], rows.rest[i], rows.share[i]}
	}
	b.mix = mixTile{out: 4 * width, vectors: len(columns), columns: &columns[0], lines: &lines[0]}
}

func (b *bilinear) findGathered(rows, cols *taps[float32]) {
	width := 2 * b.w
	lines := make([]gatheredRow, b.h)
	for i, s := range rows.seen {
		lines[i] = gatheredRow{first: 4 * width * s.first, count: len(s.weights)}
		copy(lines[i].weights[:], s.weights)
	}
	step := b.w + kernel.Block
	weights := make([]float32, 4*step)
	for i, s := range cols.seen {
		for k, weight := range s.weights {
			weights[(s.first+k-(2*i-1))*step+i] = weight
		}
	}
	wide, starts := inBytes(starts(width, b.gradLanes)), inBytes(starts(b.w, b.gradLanes))
	b.gather = gatherTile{
		line: 4 * width, wide: len(wide), wideAt: &wide[0], lines: &lines[0], out: 4 * b.w, vectors: len(starts), starts: &starts[0],
		weights: &weights[0], step: 4 * step, order: &pairOrders[0][0],
	}
}

// scratch is how many elements add needs: sums of a row, zeros around them, and what vectors read behind them.
func (b *bilinear) scratch() int { return 2*b.w + 3*kernel.Block }

// enlarge writes as many rows of y as vectors may, and returns how many these are.
func (b *bilinear) enlarge(planes int, x, y []float32) (rows int) {
	height, width, t := b.h*b.factor, b.w*b.factor, b.mix
	in := b.h * b.w
	for rows = planes * height; rows > 0; rows-- {
		plane, row := (rows-1)/height, min((rows-1)%height/b.factor+1, b.h-1)
		if (rows-1)*width+b.lanes <= planes*height*width && plane*in+row*b.w+b.lanes <= planes*in {
			break
		}
	}
	for plane := 0; plane*height < rows; plane++ {
		t.rows, t.x, t.y = min(height, rows-plane*height), &x[plane*in], &y[plane*height*width]
		vecMixRows(b.lanes, &t)
	}
	return rows
}

// add writes as many rows of dx as vectors may, and returns how many these are.
func (b *bilinear) add(planes int, dy, dx, scratch []float32) (rows int) {
	if b.gradLanes == 0 {
		return 0
	}
	in, t := b.h*b.w, b.gather
	for rows = planes * b.h; rows > 0 && (rows-1)*b.w+max(b.w, b.gradLanes) > planes*in; rows-- {
	}
	sums := scratch[:b.scratch()]
	sums[0], sums[1+2*b.w] = 0, 0
	t.sums = &sums[0]
	for plane := 0; plane*b.h < rows; plane++ {
		t.rows, t.dy, t.dx = min(b.h, rows-plane*b.h), &dy[4*plane*in], &dx[plane*in]
		vecGatherRows(b.gradLanes, &t)
	}
	return rows
}
