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
	return temper(y)
}

// temper makes a word of the state a random one.
func temper(y uint32) uint32 {
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

// Skip leaves out the next n words, as n calls of Uint32 do.
func (m *MT) Skip(n int) {
	for n > 0 {
		n -= len(m.take(n))
	}
}

// take uses up at most n words, n > 0, and returns as many as one block still has, not
// yet tempered and valid until the next call.
func (m *MT) take(n int) []uint32 {
	if m.next == mtSize {
		m.twist()
	}
	words := m.state[m.next:min(mtSize, m.next+n)]
	m.next += len(words)
	return words
}

// twist makes the next block in three runs, in which no index wraps around.
func (m *MT) twist() {
	const late = mtSize - mtShift
	s := &m.state
	for i := range late {
		s[i] = s[i+mtShift] ^ mix(s[i], s[i+1])
	}
	for i := late; i < mtSize-1; i++ {
		s[i] = s[i-late] ^ mix(s[i], s[i+1])
	}
	s[mtSize-1] = s[mtShift-1] ^ mix(s[mtSize-1], s[0])
	m.next = 0
}

// mix is the recurrence's product of its matrix with the upper bit of one word and the
// lower ones of the next. It has no branch: half of the words would take it wrongly.
func mix(upper, lower uint32) uint32 {
	y := upper&(1<<31) | lower&(1<<31-1)
	return y>>1 ^ -(y&1)&0x9908b0df
}
