package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// Group norms of a half type d compute what those of float32 do of the widened values, and round once. A few groups at a time are
// widened, so that they stay in the L1 cache between the passes, or one that is larger. Statistics and what is per channel stay float32.

// stageElems is how many elements of groups are widened at a time.
const stageElems = 8192

// staged is what is widened at a time: so many samples, or groups of one.
func (s *GroupShape) staged() (samples, groups int) {
	if sample := s.C * s.HW; sample <= stageElems {
		return stageElems / sample, s.Groups
	}
	return 1, min(s.Groups, max(1, stageElems/s.size()))
}

// HalfRoom is the float32 elements that a group norm of a half type works in, or a gradient in twice as many.
func (s *GroupShape) HalfRoom() int {
	samples, groups := s.staged()
	return samples * groups * s.size()
}

// GroupNormHalf is GroupNorm of a half type, in room of HalfRoom elements.
func GroupNormHalf(d tensor.DType, s *GroupShape, x []uint16, gamma, beta []float32, eps float64, y []uint16, mean, invstd, room []float32) {
	s.eachStage(0, s.Groups, func(part *GroupShape, first, ch, at int) {
		size := part.N * part.C * part.HW
		wide := room[:size]
		convert.Widen(d, wide, tensor.Bytes(x[at:][:size]))
		GroupNorm(part, wide, from(gamma, ch), from(beta, ch), eps, wide, mean[first:], invstd[first:])
		convert.Narrow(d, tensor.Bytes(y[at:][:size]), wide)
	})
}

// GroupNormGradHalfOf is GroupNormGradOf of a half type, in room of 2·HalfRoom elements.
func GroupNormGradHalfOf(d tensor.DType, lo, hi int, s *GroupShape, x, dy []uint16, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta []float32, accumulate bool, room []float32) {
	half := s.HalfRoom()
	s.eachStage(lo, hi, func(part *GroupShape, first, ch, at int) {
		size := part.N * part.C * part.HW
		wide, g := room[:size], room[half:][:size]
		convert.Widen(d, wide, tensor.Bytes(x[at:][:size]))
		convert.Widen(d, g, tensor.Bytes(dy[at:][:size]))
		GroupNormGradOf(0, part.Groups, part, wide, g, mean[first:], invstd[first:], from(gamma, ch), g, from(dgamma, ch), from(dbeta, ch), accumulate || first >= s.Groups)
		convert.Narrow(d, tensor.Bytes(dx[at:][:size]), g)
	})
}

// eachStage calls f for what is widened at a time of the groups [lo, hi) of each sample, with the number of its first group among those of
// all samples, its first channel, and the offset of its elements.
func (s *GroupShape) eachStage(lo, hi int, f func(part *GroupShape, first, ch, at int)) {
	samples, groups := s.staged()
	if hi-lo < s.Groups {
		samples = 1 // those of neighbours do not lie side by side
	}
	for i := 0; i < s.N; i += samples {
		for g := lo; g < hi; g += groups {
			n := min(groups, hi-g)
			part, first := GroupShape{N: min(samples, s.N-i), C: n * s.each(), HW: s.HW, Groups: n}, i*s.Groups+g
			f(&part, first, g*s.each(), first*s.size())
		}
	}
}
