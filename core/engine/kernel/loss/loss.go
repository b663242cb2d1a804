package loss

import (
	"fmt"
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// SoftmaxCrossEntropy computes PyTorch's cross_entropy over logits [rows,
// classes] with class indices in target, and its gradient in the same pass. Rows
// whose target is ignoreIndex count for nothing. With label smoothing ε, the
// wanted distribution is (1−ε)·onehot + ε/classes. lossPerRow and dlogits may be
// nil, and dlogits may be logits; dlogits = (softmax − wanted)·gradScale.
// It returns the loss summed in float64, how many rows counted, and in how many
// of those the largest logit (the first of equals) was the target's.
// A target outside [0, classes) panics.
func SoftmaxCrossEntropy[T kernel.Float](rows, classes int, logits []T, target []int32, ignoreIndex int32, labelSmoothing T,
	lossPerRow, dlogits []T, gradScale T) (lossSum float64, counted, correct int) {
	e := entropy[T]{classes: classes, ignore: ignoreIndex, smoothing: float64(labelSmoothing), gradScale: float64(gradScale)}
	chunk := chunkOf(classes)
	for r := 0; r < rows; r += chunk {
		n := min(chunk, rows-r)
		part := func(x []T) []T {
			if x == nil {
				return nil
			}
			return x[r*classes:][:n*classes]
		}
		e.rows(r, part(logits), target[r:r+n], part(dlogits))
		for i, l := range e.losses[:n] {
			lossSum += l
			if lossPerRow != nil {
				lossPerRow[r+i] = T(l)
			}
		}
	}
	return lossSum, e.counted, e.correct
}

// entropy is the cross entropy of rows, a chunk at a time.
type entropy[T kernel.Float] struct {
	classes              int
	ignore               int32
	smoothing, gradScale float64
	counted, correct     int

	losses, sums   [chunkRows]float64
	peaks, factors [chunkRows]T
	wanted         [chunkRows]T // logits of the targets
	means          [chunkRows]float64
	ahead          [chunkRows]ahead
}

// ahead is what logits say of a row before exponentials overwrite them: whether its target's
// is the largest if it is the peak, or for certain.
type ahead struct{ ifPeak, surely bool }

// rows takes the first of which is number first.
func (e *entropy[T]) rows(first int, x []T, target []int32, dx []T) {
	n := len(target)
	for i, t := range target {
		if t != e.ignore {
			if t < 0 || int(t) >= e.classes {
				panic(fmt.Sprintf("loss.SoftmaxCrossEntropy: row %d has target %d, outside [0, %d)", first+i, t, e.classes))
			}
			e.look(i, x[i*e.classes:][:e.classes], int(t))
		}
	}
	expRows(n, e.classes, x, dx, e.peaks[:], e.sums[:])
	rest := e.smoothing / float64(e.classes)
	var hits [chunkRows]float64
	for i, t := range target {
		e.losses[i], e.factors[i] = 0, T(e.gradScale/e.sums[i])
		if t == e.ignore {
			continue
		}
		e.count(i)
		if dx != nil {
			hits[i] = float64(dx[i*e.classes+int(t)])
		}
	}
	if dx == nil {
		return
	}
	scaleRows(n, e.classes, dx, e.factors[:], T(rest*e.gradScale))
	for i, t := range target {
		if row := dx[i*e.classes:][:e.classes]; t == e.ignore {
			clear(row)
		} else {
			row[t] = T((hits[i]/e.sums[i] - (1 - e.smoothing + rest)) * e.gradScale)
		}
	}
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
	if e.smoothing != 0 {
		var sum float64
		for _, v := range x {
			sum += float64(v)
		}
		e.means[i] = sum / float64(len(x))
	}
}

// count adds a row's loss, once its exponentials are added up: NaN if a logit is.
func (e *entropy[T]) count(i int) {
	sum, peak := e.sums[i], e.peaks[i]
	e.counted++
	if e.ahead[i].surely || e.ahead[i].ifPeak && e.wanted[i] == peak && sum == sum {
		e.correct++
	}
	logSum := math.Log(sum)
	e.losses[i] = (1 - e.smoothing) * (logSum - (float64(e.wanted[i]) - float64(peak)))
	if e.smoothing != 0 {
		e.losses[i] += e.smoothing * (logSum - (e.means[i] - float64(peak)))
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

// MSE returns Σ(x − target)² in float64 and, unless dx is nil, writes
// dx = 2·(x − target)·gradScale; gradScale 1/len(x) gives PyTorch's mean. dx may be x.
func MSE[T kernel.Float](x, target, dx []T, gradScale T) (lossSum float64) {
	for i, v := range x {
		d := v - target[i]
		lossSum += float64(d) * float64(d)
		if dx != nil {
			dx[i] = 2 * d * gradScale
		}
	}
	return lossSum
}
