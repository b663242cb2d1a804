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
	for r := range rows {
		x := logits[r*classes:][:classes]
		var dx []T
		if dlogits != nil {
			dx = dlogits[r*classes:][:classes]
		}
		var loss float64
		if t := target[r]; t == ignoreIndex {
			clear(dx)
		} else {
			if t < 0 || int(t) >= classes {
				panic(fmt.Sprintf("loss.SoftmaxCrossEntropy: row %d has target %d, outside [0, %d)", r, t, classes))
			}
			counted++
			peak := Largest(x)
			if isArgmax(x, int(t), peak) {
				correct++
			}
			loss = crossEntropyRow(x, peak, int(t), float64(labelSmoothing), dx, float64(gradScale))
		}
		lossSum += loss
		if lossPerRow != nil {
			lossPerRow[r] = T(loss)
		}
	}
	return lossSum, counted, correct
}

// crossEntropyRow takes each exponential once: until their sum is known, dx holds them.
func crossEntropyRow[T kernel.Float](x []T, peak T, target int, smoothing float64, dx []T, gradScale float64) float64 {
	wanted, classes := float64(x[target])-float64(peak), float64(len(x))
	var mean float64 // of what has to be the distance from the peak
	if smoothing != 0 {
		for _, v := range x {
			mean += float64(v) - float64(peak)
		}
		mean /= classes
	}
	sum := ExpSum(x, peak, dx)
	logSum := math.Log(sum)
	loss := (1 - smoothing) * (logSum - wanted)
	if smoothing != 0 {
		loss += smoothing * (logSum - mean)
	}
	if dx != nil {
		rest := smoothing / classes
		hit := float64(dx[target])
		softmaxGrad(dx, sum, rest, gradScale)
		dx[target] = T((hit/sum - (1 - smoothing + rest)) * gradScale)
	}
	return loss
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
