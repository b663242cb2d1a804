package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
)

// Share is what one of several threads computes of a convolution: some of its images,
// whose first is Image, or of the result's channels, where Channels says which.
type Share struct {
	Shape
	Image int
}

// ByChannels reports whether the share is one of channels: the call gets whole tensors.
func (s *Share) ByChannels() bool { return s.Channels.All > 0 }

// Shares divides a direction among at most some threads, so that as little as possible is
// computed by more than one of them.
func Shares[T kernel.Float](p Shape, d Direction, threads int) []Share {
	if threads > 1 && choose[T](&p, d) == Winograd && winograd.Divides(&p, d, threads) {
		shares := make([]Share, threads)
		for i := range shares {
			shares[i].Shape = winograd.Share(p, d, threads, i)
		}
		return shares
	}
	shares := make([]Share, min(threads, p.N))
	for i := range shares {
		first, end := p.N*i/len(shares), p.N*(i+1)/len(shares)
		shares[i] = Share{Shape: p, Image: first}
		shares[i].N = end - first
	}
	return shares
}
