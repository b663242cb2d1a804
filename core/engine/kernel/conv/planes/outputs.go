package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Several outputs of a channel are convolutions with one output each, one after the other: the kernels are called for planes as far apart
// as the same output of the channels lies, and get their weights in this order.

// filterOf is the number of the i-th filter if all channels' first ones come first.
func filterOf(channels, outputs, i int) int { return i%channels*outputs + i/channels }

// outputsFirst copies what each filter has, as its weights, in that order.
func outputsFirst(channels, outputs int, v, scratch []float32) (to, rest []float32) {
	to, rest = scratch[:len(v)], scratch[len(v):]
	each := len(v) / (channels * outputs)
	for i := range channels * outputs {
		copy(to[i*each:][:each], v[filterOf(channels, outputs, i)*each:])
	}
	return to, rest
}

// channelsAtOnce is how many channels are computed at a time: of those that have several outputs, as many as stay in the L1 cache for all of
// them.
func channelsAtOnce(channels, outputs, pixels int) int {
	const near = 16 << 10 // bytes
	if outputs == 1 {
		return channels
	}
	return min(channels, max(1, near/(4*pixels)))
}

// channelsSummed is how many channels' weight gradients, of so many sums each, are worked on at a time, from so many elements of x and dy: vectors of sums
// stay in the L1 cache for all images, or, if the L2 cache does not hold all elements, in that, for longer runs of memory.
func channelsSummed(channels, sums, elems int) int {
	const near, further = 1 << 9, 1 << 11 // vectors
	if elems > cost.CachedElems {
		return min(channels, max(1, further/sums))
	}
	return min(channels, max(1, near/sums))
}

// laneTotals adds up lanes, [outputs][channels][taps][lanes], to the gradient of the weights, [channels][outputs][taps].
func laneTotals(channels, outputs, taps int, lanes, sums []float32) {
	if outputs == 1 {
		geometry.LaneSums(kernel.Block, lanes, sums[:channels*taps])
		return
	}
	for i := range channels * outputs {
		geometry.LaneSums(kernel.Block, lanes[i*taps*kernel.Block:], sums[filterOf(channels, outputs, i)*taps:][:taps])
	}
}
