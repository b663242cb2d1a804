package winograd

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// The kernels of Winograd: with 6 points for filters of 3×3, with 8 for 5×5, with 9 for
// 3×3 with stride 2, those of lines with 6 for three taps and 8 for five and seven, and with 10 and 11 for those of larger tiles, which exist for
// AVX-512 alone.

// dataToPoints evaluates tiles of pixels.
func dataToPoints(pixels, points size, t *transform) {
	if n, ok := t.alongLine(pixels, points); ok {
		lineDataToPoints(n.from, t)
		return
	}
	switch [2]int{pixels.w, points.w} {
	case [2]int{1, 1}:
		geometry.CopyVectors(t.count, 1, t.in, t.inStep, t.out, t.outStep)
	case [2]int{6, 6}:
		vecDataTo6Points(t)
	case [2]int{8, 8}:
		vecDataTo8Points(t)
	case [2]int{5, 9}:
		vecData5To9Points(t)
	case [2]int{9, 9}:
		vecData9To9Points(t)
	case [2]int{10, 10}:
		vecDataTo10Points(t)
	case [2]int{11, 11}:
		vecDataTo11Points(t)
	}
}

// filterToPoints evaluates filters of so many taps.
func filterToPoints(taps, points size, t *transform) {
	if n, ok := t.alongLine(taps, points); ok {
		lineFilterToPoints(n, t)
		return
	}
	switch [2]int{taps.w, points.w} {
	case [2]int{1, 1}:
		geometry.CopyVectors(t.count, 1, t.in, t.inStep, t.out, t.outStep)
	case [2]int{3, 6}:
		vecFilter3To6Points(t)
	case [2]int{4, 6}:
		vecFilter4To6Points(t)
	case [2]int{4, 8}:
		vecFilter4To8Points(t)
	case [2]int{5, 8}:
		vecFilter5To8Points(t)
	case [2]int{3, 9}:
		vecFilter3To9Points(t)
	case [2]int{4, 9}:
		vecFilter4To9Points(t)
	case [2]int{3, 10}:
		vecFilter3To10Points(t)
	case [2]int{8, 10}:
		vecFilter8To10Points(t)
	case [2]int{5, 11}:
		vecFilter5To11Points(t)
	case [2]int{7, 11}:
		vecFilter7To11Points(t)
	}
}

// pointsTo interpolates to tiles of outputs. A single point is the first of them, and
// the others are left alone.
func pointsTo(points, outputs size, t *transform) {
	if points.area() == 1 {
		geometry.CopyVectors(t.count, 1, t.in, t.inStep, t.out, t.outStep)
		return
	}
	if n, ok := t.alongLine(points, outputs); ok {
		linePointsTo(n, t)
		return
	}
	switch [2]int{points.w, outputs.w} {
	case [2]int{6, 3}:
		vecPoints6To3(t)
	case [2]int{6, 4}:
		vecPoints6To4(t)
	case [2]int{8, 4}:
		vecPoints8To4(t)
	case [2]int{8, 5}:
		vecPoints8To5(t)
	case [2]int{9, 3}:
		vecPoints9To3(t)
	case [2]int{9, 4}:
		vecPoints9To4(t)
	case [2]int{9, 8}:
		vecPoints9To8(t)
	case [2]int{10, 3}:
		vecPoints10To3(t)
	case [2]int{10, 8}:
		vecPoints10To8(t)
	case [2]int{11, 5}:
		vecPoints11To5(t)
	case [2]int{11, 7}:
		vecPoints11To7(t)
	}
}

// lengths are how many vectors of a line are read and written.
type lengths struct{ from, to int }

// alongLine reports whether rectangles are lines, and how long. Those of a column become rows, which is what kernels know.
func (t *transform) alongLine(from, to size) (lengths, bool) {
	switch {
	case from.w == 1 && to.w == 1 && max(from.h, to.h) > 1:
		t.inCol, t.outCol = t.inRow, t.outRow
		return lengths{from.h, to.h}, true
	case from.h == 1 && to.h == 1 && max(from.w, to.w) > 1:
		return lengths{from.w, to.w}, true
	}
	return lengths{}, false
}

// lineDataToPoints evaluates lines of pixels at as many points.
func lineDataToPoints(points int, t *transform) {
	if points == 6 {
		vecLineDataTo6Points(t)
	} else {
		vecLineDataTo8Points(t)
	}
}

// lineFilterToPoints evaluates filters of a line.
func lineFilterToPoints(n lengths, t *transform) {
	switch n {
	case lengths{3, 6}:
		vecLineFilter3To6Points(t)
	case lengths{4, 6}:
		vecLineFilter4To6Points(t)
	case lengths{2, 8}:
		vecLineFilter2To8Points(t)
	case lengths{4, 8}:
		vecLineFilter4To8Points(t)
	case lengths{5, 8}:
		vecLineFilter5To8Points(t)
	case lengths{7, 8}:
		vecLineFilter7To8Points(t)
	}
}

// linePointsTo interpolates to outputs along a line.
func linePointsTo(n lengths, t *transform) {
	switch n {
	case lengths{6, 3}:
		vecLinePoints6To3(t)
	case lengths{6, 4}:
		vecLinePoints6To4(t)
	case lengths{8, 2}:
		vecLinePoints8To2(t)
	case lengths{8, 4}:
		vecLinePoints8To4(t)
	case lengths{8, 5}:
		vecLinePoints8To5(t)
	case lengths{8, 7}:
		vecLinePoints8To7(t)
	}
}

// pointRows multiplies packed tiles, a whole number of micro-kernels, with one or two blocks of
// output channels.
func (s pointShape) pointRows(tiles, blocks int, t *pointTile) {
	full, less := s.split(tiles)
	if full > 0 {
		t.setPacked(full, s.tileRows)
		switch {
		case s.tileRows == 6:
			vecPointRows6x1(t)
		case blocks == 1:
			vecPointRows8x1(t)
		default:
			vecPointRows8x2(t)
		}
	}
	if less > 0 {
		t.c0 = (*float32)(unsafe.Add(unsafe.Pointer(t.c0), full*t.cStep))
		t.setPacked(less, s.tileRows-1)
		vecPointRows5x1(t)
	}
}

// pointCols multiplies the 16 channels of a block of the input with one or two blocks of
// output channels, summed over tiles.
func (s pointShape) pointCols(blocks int, t *pointTile) {
	switch {
	case s.fewer:
		t.setRows(1, 6, 4)
		vecPointCols6x1(t)
		t.c0 = (*float32)(unsafe.Add(unsafe.Pointer(t.c0), t.cStep))
		t.setRows(2, 5, 4)
		vecPointCols5x1(t)
	case blocks == 1:
		t.setRows(2, 8, 4)
		vecPointCols8x1(t)
	default:
		t.setRows(2, 8, 4)
		vecPointCols8x2(t)
	}
}

// setPacked makes it count times so many tiles, which lie side by side in each of its blocks of channels.
func (t *pointTile) setPacked(count, rows int) {
	t.setRows(count, rows, 4*channelLanes*t.blocks)
	t.jump = 4*channelLanes*rows - 4*t.steps
}

// setRows makes it count times so many rows, which lie step bytes apart.
func (t *pointTile) setRows(count, rows, step int) {
	t.count, t.aStep, t.cStep = count, step*rows, 4*rows*channelLanes
}
