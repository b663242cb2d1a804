package loss

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// SoftCrossEntropy is SoftmaxCrossEntropy for rows whose targets [rows, classes] are
// probabilities of the classes, as mixup makes them. Every row counts, and is right where the
// largest logit is the most probable class. With label smoothing ε a probability p
// becomes (1−ε)·p + ε/classes.
func SoftCrossEntropy[T kernel.Float](rows, classes int, logits, target []T, how Criterion, dlogits []T, gradScale T) (lossSum float64, counted, correct int) {
	e := newEntropy[T](classes, how, gradScale)
	e.chunks(rows, logits, dlogits, func(r, n int, x, dx []T) { e.soft(n, x, target[r*classes:][:n*classes], dx) }, func(_ int, l float64) { lossSum += l })
	return lossSum, e.counted, e.correct
}

// soft takes n rows.
func (e *entropy[T]) soft(n int, x, target, dx []T) {
	var totals, products [chunkRows]float64
	for i := range n {
		row, p := x[i*e.classes:][:e.classes], target[i*e.classes:][:e.classes]
		at := 0
		for j, v := range row {
			q := e.wants(p, j)
			totals[i] += q
			products[i] += q * float64(v)
			if p[j] > p[at] {
				at = j
			}
		}
		e.look(i, row, at)
	}
	expRows(n, e.classes, x, dx, e.peaks[:], e.sums[:])
	for i := range n {
		e.hit(i)
		e.losses[i] = totals[i]*math.Log(e.sums[i]) - (products[i] - totals[i]*float64(e.peaks[i]))
		e.factors[i] = T(e.gradScale * totals[i] / e.sums[i])
	}
	if dx == nil {
		return
	}
	scaleRows(n, e.classes, dx, e.factors[:], 0)
	for i := range n {
		p := target[i*e.classes:][:e.classes]
		for j := range p {
			dx[i*e.classes+j] -= T(e.wants(p, j) * e.gradScale)
		}
	}
}

// wants is the target probability of class j.
func (e *entropy[T]) wants(p []T, j int) float64 {
	return ((1-e.Smoothing)*float64(p[j]) + e.rest) * e.weight(j)
}
