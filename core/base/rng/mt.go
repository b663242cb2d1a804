package rng

const (
	mtSize  = 624
	mtShift = 397
)

// MT is the Mersenne Twister MT19937 of Matsumoto and Nishimura (1998) as
// PyTorch keeps it (aten/src/ATen/core/MT19937RNGEngine.h). It is not safe for
// concurrent use.
type MT struct {
	state [mtSize]uint32
	next  int     // index of the next word; mtSize: draw a new block first
	spare float64 // second half of the last normal pair
	has   bool    // spare is valid
}

// NewMT seeds a generator. As in PyTorch only the low 32 bits of the seed count.
func NewMT(seed uint64) *MT {
	m := &MT{next: mtSize}
	m.state[0] = uint32(seed)
	for i := 1; i < mtSize; i++ {
		prev := m.state[i-1]
		m.state[i] = 1812433253*(prev^prev>>30) + uint32(i)
	}
	return m
}

// Uint32 draws 32 random bits.
func (m *MT) Uint32() uint32 {
	if m.next == mtSize {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Uint64 draws 64 random bits, the high half first, as PyTorch's random64.
func (m *MT) Uint64() uint64 {
	hi := uint64(m.Uint32())
	return hi<<32 | uint64(m.Uint32())
}

func (m *MT) twist() {
	const upper, lower = 0x80000000, 0x7fffffff
	for i := range mtSize {
		y := m.state[i]&upper | m.state[(i+1)%mtSize]&lower
		v := m.state[(i+mtShift)%mtSize] ^ y>>1
		if y&1 != 0 {
			v ^= 0x9908b0df
		}
		m.state[i] = v
	}
	m.next = 0
}
