package geometry

import "github.com/trainctl/trainctl/core/engine/kernel"

// Collide reports whether lines of as many planes or images as vectors have lanes, so many elements apart, lie in one set of the L1 cache where
// it has fewer ways than sixteen. Stores to each of them in turn evict each other's lines, so what is written goes by way of room, where these lie in
// different sets. With eight lanes caches have as many ways, and copying twice takes 1.05 to 1.3 of the time.
func Collide(lanes, apart int) bool {
	const page = 1 << 10 // elements after which sets repeat
	return lanes == kernel.Block && apart%page == 0
}
