package conv

import (
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// five are the points of 4 outputs of 2 taps: chosen for the smallest error, which
// is that of a direct sum.
var five = pointSet{finite: []float64{0.375, -0.375, 1.25, -1.25}}

// halving emits the transforms of 3×3 filters with stride 2. Of the nine pixels
// in a line that four outputs look at, the five even ones meet the outer taps, as a
// filter of two does with stride 1, and the four odd ones the middle tap alone: five
// points and four plain products. The first five of each nine here are the points.
func halving(a *isa.Asm) {
	largeTransform(a, "data9To9Points", "tiles of 9×9 pixels to as many points", 9, 9, halve(five.apply(dataPairs, dataMatrix(five.finite))))
	largeTransform(a, "data5To9Points", "tiles of 5×5 gradients of outputs to 9×9 points", 9, 5, five.withFirst(dataPairs, dataMatrix(five.finite)))
	largeTransform(a, "filter3To9Points", "filters of 3×3 to 9×9 points", 9, 3, halve(five.apply(filterPairs, filterMatrix(five.finite, 2))))
	largeTransform(a, "filter4To9Points", "tiles of 4×4 gradients of outputs to 9×9 points", 9, 4, five.withFirst(filterPairs, filterMatrix(five.finite, 4)))
	largeTransform(a, "points9To4", "9×9 points to tiles of 4×4", 4, 9, five.addedUp)
	largeTransform(a, "points9To8", "9×9 points to tiles of 8×8 gradients of pixels", 8, 9, five.interleaved)
	largeTransform(a, "points9To3", "9×9 points to 3×3 gradients of taps", 3, 9, five.toTaps)
}

// points is how many they are, with infinity; plain products stand behind them.
func (p pointSet) points() int { return len(p.finite) + 1 }

// halve evaluates the even elements of a line at the points and keeps the odd
// ones: each in turn, or a single one for each product.
func halve(even lineMap) lineMap {
	return func(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
		var outer []reg.VecVirtual
		for _, i := range every(0, len(in)) {
			outer = append(outer, in[i])
		}
		even(t, outer, out)
		middle := every(1, len(in))
		for i := range 4 {
			out(five.points()+i, in[middle[i%len(middle)]])
		}
	}
}

// withFirst evaluates a whole line at the points and keeps its first four elements.
func (p pointSet) withFirst(f pairwise, m [][]float64) lineMap {
	return func(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
		f(t, p, m, in, out)
		for i := range 4 {
			out(p.points()+i, in[i])
		}
	}
}

// addedUp interpolates to four outputs and adds the plain products.
func (p pointSet) addedUp(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	outPairs(t, p, outMatrix(p.finite, 4), in[:p.points()], func(i int, v reg.VecVirtual) {
		t.a.Add(in[p.points()+i], v, v)
		out(i, v)
	})
}

// interleaved interpolates to every second of eight; the plain products are those between.
func (p pointSet) interleaved(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	outPairs(t, p, outMatrix(p.finite, 4), in[:p.points()], func(i int, v reg.VecVirtual) { out(2*i+1, v) })
	for i, v := range in[p.points():] {
		out(2*i, v)
	}
}

// toTaps interpolates to the outer taps; the middle one is the sum of the plain products.
func (p pointSet) toTaps(t *table, in []reg.VecVirtual, out func(i int, v reg.VecVirtual)) {
	outPairs(t, p, outMatrix(p.finite, 2), in[:p.points()], func(i int, v reg.VecVirtual) { out(2*i, v) })
	plain, sum := in[p.points():], t.a.Vec()
	t.a.Add(plain[0], plain[1], sum)
	t.a.Add(plain[2], sum, sum)
	t.a.Add(plain[3], sum, sum)
	out(1, sum)
}
