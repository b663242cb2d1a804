package loss

import (
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Criterion is what PyTorch's cross_entropy takes besides logits and targets. In a row of
// class t, with label smoothing ε and classes' weights w, class c is wanted with
// w[c]·((1−ε)·[c = t] + ε/classes), and the loss is Σ over c of that times −log softmax[c].
type Criterion struct {
	Ignore    int32 // rows of this class count for nothing
	Smoothing float64
	Weights   []float64 // of classes; nil: each 1
}

// SoftmaxCrossEntropy computes PyTorch's cross_entropy over logits [rows,
// classes] with class indices in target, and its gradient in the same pass.
// lossPerRow and dlogits may be nil, and dlogits may be logits; dlogits is the
// gradient of the sum times gradScale.
// It returns the loss summed in float64, how many rows counted, and in how many
// of those the largest logit (the first of equals) was the target's.
// A target outside [0, classes) panics.
func SoftmaxCrossEntropy[T kernel.Float](rows, classes int, logits []T, target []int32, how Criterion,
	lossPerRow, dlogits []T, gradScale T) (lossSum float64, counted, correct int) {
	e := newEntropy[T](classes, how, gradScale)
	e.chunks(rows, logits, dlogits, func(r, n int, x, dx []T) { e.rows(r, x, target[r:r+n], dx) }, func(r int, l float64) {
		lossSum += l
		if lossPerRow != nil {
			lossPerRow[r] = T(l)
		}
	})
	return lossSum, e.counted, e.correct
}

func newEntropy[T kernel.Float](classes int, how Criterion, gradScale T) *entropy[T] {
	e := &entropy[T]{Criterion: how, classes: classes, gradScale: float64(gradScale), rest: how.Smoothing / float64(classes), mean: 1}
	if how.Weights != nil {
		e.mean = 0
		for _, w := range how.Weights {
			e.mean += w / float64(classes)
		}
	}
	return e
}

// chunks calls run for some rows after the other, and each for the loss of every row.
func (e *entropy[T]) chunks(rows int, logits, dlogits []T, run func(r, n int, x, dx []T), each func(r int, l float64)) {
	chunk := chunkOf(e.classes)
	for r := 0; r < rows; r += chunk {
		n := min(chunk, rows-r)
		part := func(x []T) []T {
			if x == nil {
				return nil
			}
			return x[r*e.classes:][:n*e.classes]
		}
		run(r, n, part(logits), part(dlogits))
		for i, l := range e.losses[:n] {
			each(r+i, l)
		}
	}
}

// entropy is the cross entropy of rows, a chunk at a time.
type entropy[T kernel.Float] struct {
	Criterion
	classes          int
	gradScale        float64
	rest             float64 // what smoothing gives each class, before weights
	mean             float64 // of the weights
	counted, correct int

	losses, sums   [chunkRows]float64
	peaks, factors [chunkRows]T
	wanted         [chunkRows]T       // logits of the targets
	means          [chunkRows]float64 // of weighted logits
	ahead          [chunkRows]ahead
}

// ahead is what logits say of a row before exponentials overwrite them: whether its target's
// is the largest if it is the peak, or for certain.
type ahead struct{ ifPeak, surely bool }

// rows takes the first of which is number first.
func (e *entropy[T]) rows(first int, x []T, target []int32, dx []T) {
	n := len(target)
	for i, t := range target {
		if t != e.Ignore {
			if t < 0 || int(t) >= e.classes {
				panic(fmt.Sprintf("loss.SoftmaxCrossEntropy: row %d has target %d, outside [0, %d)", first+i, t, e.classes))
			}
			e.look(i, x[i*e.classes:][:e.classes], int(t))
		}
	}
	expRows(n, e.classes, x, dx, e.peaks[:], e.sums[:])
	var hits [chunkRows]float64
	for i, t := range target {
		e.losses[i], e.factors[i] = 0, 0
		if t == e.Ignore {
			continue
		}
		e.factors[i] = T(e.gradScale * e.total(t) / e.sums[i])
		e.count(i, e.weight(int(t)))
		if dx != nil {
			hits[i] = float64(dx[i*e.classes+int(t)])
		}
	}
	if dx == nil {
		return
	}
	less := e.rest * e.gradScale
	if e.Weights != nil {
		less = 0
	}
	scaleRows(n, e.classes, dx, e.factors[:], T(less))
	for i, t := range target {
		row := dx[i*e.classes:][:e.classes]
		if t == e.Ignore {
			clear(row)
			continue
		}
		if e.Weights != nil && e.rest != 0 {
			for j, w := range e.Weights {
				row[j] -= T(w * e.rest * e.gradScale)
			}
		}
		row[t] = T((hits[i]/e.sums[i]*e.total(t) - e.weight(int(t))*(1-e.Smoothing+e.rest)) * e.gradScale)
	}
}

// weight is that of a class.
func (e *entropy[T]) weight(class int) float64 {
	if e.Weights == nil {
		return 1
	}
	return e.Weights[class]
}

// total is what all classes together are wanted with in a row of a class.
func (e *entropy[T]) total(class int32) float64 {
	if e.Weights == nil {
		return 1
	}
	return (1-e.Smoothing)*e.Weights[class] + e.Smoothing*e.mean
}

// look reads what is needed of a row's logits. The first of equal logits wins, or the first
// NaN; what is left open is whether there is a NaN, or a larger one, behind a finite one.
func (e *entropy[T]) look(i int, x []T, target int) {
	w := x[target]
	e.wanted[i] = w
	if e.ahead[i] = (ahead{}); w-w == 0 {
		e.ahead[i].ifPeak = target == 0 || largest(x[:target]) < w
	} else {
		e.ahead[i].surely = isArgmax(x, target, largest(x))
	}
	if e.Smoothing != 0 {
		var sum float64
		for j, v := range x {
			sum += e.weight(j) * float64(v)
		}
		e.means[i] = sum / float64(len(x))
	}
}

// count adds a row's loss, once its exponentials are added up: NaN if a logit is. weight is that of its class.
func (e *entropy[T]) count(i int, weight float64) {
	sum, peak := e.sums[i], e.peaks[i]
	e.hit(i)
	logSum := math.Log(sum)
	e.losses[i] = (1 - e.Smoothing) * weight * (logSum - (float64(e.wanted[i]) - float64(peak)))
	if e.Smoothing != 0 {
		e.losses[i] += e.Smoothing * (e.mean*logSum - (e.means[i] - e.mean*float64(peak)))
	}
}

// hit counts a row, and whether it is right.
func (e *entropy[T]) hit(i int) {
	e.counted++
	if sum := e.sums[i]; e.ahead[i].surely || e.ahead[i].ifPeak && e.wanted[i] == e.peaks[i] && sum == sum {
		e.correct++
	}
}

// isArgmax reports whether x[at] is the largest, peak: the first of equals, or of the NaNs if there are any.
func isArgmax[T kernel.Float](x []T, at int, peak T) bool {
	if x[at] != peak && x[at] == x[at] {
		return false
	}
	for _, v := range x[:at] {
		if v != v || v == peak && x[at] == peak {
			return false
		}
	}
	return x[at] != x[at] || !slices.ContainsFunc(x[at:], func(v T) bool { return v != v })
}
