package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Matrices of many rows are copied and multiplied a part of the channels at a time. So the copies of several images
// stay in L2 together, and their pixels are the columns of one product: vectors are full, calls of the micro-kernels
// long, and sums over pixels deep.

// mostPartRows is how many rows a part has at most, if it has more than one channel. Sums over rows
// begin anew after so many in any case.
const mostPartRows = gemm.BlockK

// channelsOf is how many channels a part has; it is the same for any number of images, on which no sum over rows depends then.
func channelsOf(p *geometry.Shape) int {
	padded := p.PadH+p.PadW > 0
	if padded || p.GroupCount() > 1 || !isProduct(p) || p.OutH()*p.OutW() == 1 || p.PatchSize() <= mostPartRows {
		return p.C
	}
	return gemm.EvenRows(p.C, max(1, mostPartRows/(p.R*p.S)))
}

// inParts reports whether there are several parts, as there are only of copies.
func (m *patches) inParts() bool { return !m.inPlace && m.channels < m.p.C }

// partRows is how many rows of a group are worked on at once.
func (m *patches) partRows() int { return m.copiedRows() / m.p.GroupCount() }

// parts is how many parts there are, of which the last may be less.
func (m *patches) parts() float64 { return float64(m.rows) / float64(m.partRows()) }

// piece is what is worked on at once: images, and of these channels and the rows of a group that they have.
type piece struct{ first, images, channel, channels, row, rows int }

// at is where the channels of image i of a piece begin.
func (m *patches) at(c piece, i int) int {
	return ((c.first+i)*m.p.C + c.channel) * m.p.H * m.p.W
}

// eachPiece calls f for all pieces of a batch of images after the other.
func (m *patches) eachPiece(f func(piece)) {
	taps, groups := m.p.R*m.p.S, m.p.GroupCount()
	for n := 0; n < m.p.N; n += m.batch {
		for ch := 0; ch < m.p.C; ch += m.channels {
			c := piece{first: n, images: min(m.batch, m.p.N-n), channel: ch, channels: min(m.channels, m.p.C-ch)}
			c.row, c.rows = ch*taps, c.channels*taps/groups
			f(c)
		}
	}
}
