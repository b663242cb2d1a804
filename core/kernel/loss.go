package kernel

import (
	"fmt"
	"math"
)

// SoftmaxCrossEntropy computes PyTorch's cross_entropy over logits [rows,
// classes] with class indices in target, and its gradient in the same pass. Rows
// whose target is ignoreIndex count for nothing. With label smoothing ε, the
// wanted distribution is (1−ε)·onehot + ε/classes. lossPerRow and dlogits may be
// nil, and dlogits may be logits; dlogits = (softmax − wanted)·gradScale.
// It returns the loss summed in float64, how many rows counted, and in how many
// of those the largest logit (the first of equals) was the target's.
// A target outside [0, classes) panics.
func SoftmaxCrossEntropy[T Float](rows, classes int, logits []T, target []int32, ignoreIndex int32, labelSmoothing T,
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
				panic(fmt.Sprintf("kernel.SoftmaxCrossEntropy: row %d has target %d, outside [0, %d)", r, t, classes))
			}
			counted++
			if argmax(x) == int(t) {
				correct++
			}
			loss = crossEntropyRow(x, int(t), float64(labelSmoothing), dx, float64(gradScale))
		}
		lossSum += loss
		if lossPerRow != nil {
			lossPerRow[r] = T(loss)
		}
	}
	return lossSum, counted, correct
}

// crossEntropyRow takes each exponential once: until their sum is known, dx holds them.
func crossEntropyRow[T Float](x []T, target int, smoothing float64, dx []T, gradScale float64) float64 {
	peak := float64(x[argmax(x)])
	wanted := float64(x[target]) - peak
	var sumExp, sumX float64
	for j, v := range x {
		d := float64(v) - peak
		e := math.Exp(d)
		sumExp += e
		sumX += d
		if dx != nil {
			dx[j] = T(e)
		}
	}
	logSum := math.Log(sumExp)
	classes := float64(len(x))
	loss := (1 - smoothing) * (logSum - wanted)
	if smoothing != 0 {
		loss += smoothing * (logSum - sumX/classes)
	}
	for j, e := range dx {
		want := smoothing / classes
		if j == target {
			want += 1 - smoothing
		}
		dx[j] = T((float64(e)/sumExp - want) * gradScale)
	}
	return loss
}

// argmax is the place of the largest element: the first of equals, or of the NaNs if there are any.
func argmax[T Float](x []T) int {
	at := 0
	for i, v := range x {
		if v != v {
			return i
		}
		if v > x[at] {
			at = i
		}
	}
	return at
}

// MSE returns Σ(x − target)² in float64 and, unless dx is nil, writes
// dx = 2·(x − target)·gradScale; gradScale 1/len(x) gives PyTorch's mean. dx may be x.
func MSE[T Float](x, target, dx []T, gradScale T) (lossSum float64) {
	for i, v := range x {
		d := v - target[i]
		lossSum += float64(d) * float64(d)
		if dx != nil {
			dx[i] = 2 * d * gradScale
		}
	}
	return lossSum
}
