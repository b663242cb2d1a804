package digits

// source is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom
// Number Generators, 2014), started at a hash of stream and index.
type source struct{ state uint64 }

const golden = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (s Stream) source(index int) source {
	return source{mix(mix(uint64(s)*golden) + uint64(index)*golden)}
}

func (r *source) next() uint64 {
	r.state += golden
	return mix(r.state)
}

// below is uniform in [0, n); the bias of the multiplication is below 2^-32·n.
func (r *source) below(n int) int {
	return int(r.next() >> 32 * uint64(n) >> 32)
}

// around is triangular in [-n, n]: small values are the likely ones.
func (r *source) around(n int) int {
	up, down := r.below(n+1), r.below(n+1)
	return up - down
}
