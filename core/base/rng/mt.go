package rng

import "fmt"

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

// State is everything a generator needs to go on where another stopped.
type State struct {
	Words    []uint32 // the 624 words
	Next     int      // index of the next word, 0 to 624
	Spare    float64  // a normal number already drawn
	HasSpare bool
}

// State copies the generator's state.
func (m *MT) State() State {
	return State{Words: append([]uint32(nil), m.state[:]...), Next: m.next, Spare: m.spare, HasSpare: m.has}
}

// SetState continues from a state that State returned; it refuses any other.
func (m *MT) SetState(s State) error {
	if len(s.Words) != mtSize || s.Next < 0 || s.Next > mtSize {
		return fmt.Errorf("rng: a state has %d words and a position up to %d, got %d words at %d", mtSize, mtSize, len(s.Words), s.Next)
	}
	copy(m.state[:], s.Words)
	m.next, m.spare, m.has = s.Next, s.Spare, s.HasSpare
	return nil
}
