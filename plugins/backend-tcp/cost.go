package tcp

import (
	"fmt"
	"math/bits"
	"time"
)

// cost is the model of Thakur, Rabenseifner and Gropp (2005): a message of s
// bytes takes alpha + s·beta, reducing them s·gamma. It is measured when the
// group starts (fit.go) and is equal on all ranks.
type cost struct {
	alpha float64 // ns, from sending a small message to having received it
	beta  float64 // ns per byte sent and received
	gamma float64 // ns per byte reduced
}

// defaultCost is that between two processes of one machine. It is used until a
// group has measured its own.
var defaultCost = cost{alpha: 30e3, beta: 0.6, gamma: 0.05}

// burst is the cost of each further message of a round, as a share of alpha: the
// messages of a round are in flight together.
const burst = 0.25

// of predicts the time of an all-reduce of s bytes among n ranks, in nanoseconds. It
// leaves out what all algorithms have in common, the comparison of the calls.
func (k cost) of(algorithm string, s, n int) float64 {
	size, others := float64(s), float64(n-1)
	round := k.alpha * (1 + burst*(others-1)) // with a message to everyone
	chunks := size * others / float64(n)
	power := 1 << (bits.Len(uint(n)) - 1)
	steps := float64(bits.Len(uint(power)) - 1)
	pairing := 0.0
	if n > power {
		pairing = 2*k.alpha + size*(2*k.beta+k.gamma)
	}
	switch algorithm {
	case algorithmDirect:
		return round + others*size*(k.beta+k.gamma)
	case algorithmMesh:
		return 2*round + 2*chunks*k.beta + chunks*k.gamma
	case algorithmRing:
		return 2*others*k.alpha + 2*chunks*k.beta + chunks*k.gamma
	case algorithmDoubling:
		return pairing + steps*(k.alpha+size*(k.beta+k.gamma))
	case algorithmHalving:
		return pairing + 2*steps*k.alpha + size*float64(power-1)/float64(power)*(2*k.beta+k.gamma)
	}
	panic("no model of " + algorithm)
}

var (
	inOrder  = []string{algorithmDirect, algorithmMesh}
	anyOrder = []string{algorithmDirect, algorithmMesh, algorithmDoubling, algorithmHalving, algorithmRing}
)

// cheapest returns the algorithm to use. With reproducible, it considers only algorithms that
// reduce in rank order, so that the choice does not change the result. A ring is never cheapest by
// this model, since the mesh moves as many bytes in fewer rounds; the model does not know that on
// some networks many senders slow down one receiver.
func (k cost) cheapest(s, n int, reproducible bool) (best string) {
	candidates := anyOrder
	if reproducible {
		candidates = inOrder
	}
	least := 0.0
	for i, a := range candidates {
		if t := k.of(a, s, n); i == 0 || t < least {
			best, least = a, t
		}
	}
	return best
}

func (k cost) String() string {
	return fmt.Sprintf("latency %v, %.2f GB/s, reduction %.1f GB/s", time.Duration(k.alpha).Round(100*time.Nanosecond), 1/k.beta, 1/k.gamma)
}
