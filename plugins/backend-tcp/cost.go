package tcp

import (
	"fmt"
	"math/bits"
	"time"
)

// Cost is the model of Thakur, Rabenseifner and Gropp (2005), by which the backend chooses
// the algorithm of an all-reduce: a message of s bytes takes Alpha + s·Beta, reducing them
// s·Gamma. The backend measures it when the group starts (fit.go); it is equal on all ranks.
type Cost struct {
	Alpha float64 // ns, from sending a small message to having received it
	Beta  float64 // ns per byte sent and received
	Gamma float64 // ns per byte reduced
}

// defaultCost is that between two processes of one machine. It is used until a
// group has measured its own.
var defaultCost = Cost{Alpha: 30e3, Beta: 0.6, Gamma: 0.05}

// burst is the cost of each further message of a round, as a share of Alpha: the
// messages of a round are in flight together.
const burst = 0.25

// Of predicts the time of an all-reduce of s bytes among n ranks, or hosts,, in nanoseconds, by an
// algorithm of [Algorithms] or "chain". It leaves out what all algorithms have in common, the
// comparison of the calls.
func (k Cost) Of(algorithm string, s, n int) float64 {
	size, others := float64(s), float64(n-1)
	round := k.Alpha * (1 + burst*(others-1)) // with a message to everyone
	chunks := size * others / float64(n)
	power := 1 << (bits.Len(uint(n)) - 1)
	steps := float64(bits.Len(uint(power)) - 1)
	pairing := 0.0
	if n > power {
		pairing = 2*k.Alpha + size*(2*k.Beta+k.Gamma)
	}
	switch algorithm {
	case algorithmDirect:
		return round + others*size*(k.Beta+k.Gamma)
	case algorithmMesh:
		return 2*round + 2*chunks*k.Beta + chunks*k.Gamma
	case algorithmRing:
		return 2*others*k.Alpha + 2*chunks*k.Beta + chunks*k.Gamma
	case algorithmDoubling:
		return pairing + steps*(k.Alpha+size*(k.Beta+k.Gamma))
	case algorithmHalving:
		return pairing + 2*steps*k.Alpha + size*float64(power-1)/float64(power)*(2*k.Beta+k.Gamma)
	case algorithmChain:
		return 2*others*k.Alpha + 2*size*k.Beta + size*k.Gamma
	case algorithmTree:
		return float64(bits.Len(uint(n-1))) * (2*k.Alpha + size*(2*k.Beta+k.Gamma))
	}
	panic("no model of " + algorithm)
}

var (
	inOrder  = []string{algorithmDirect, algorithmMesh}
	anyOrder = []string{algorithmDirect, algorithmMesh, algorithmDoubling, algorithmHalving, algorithmRing, algorithmTree}
)

// Algorithms returns the names of the algorithms of an all-reduce over sockets; with
// reproducible, of those that reduce in rank order, so that the choice does not change
// the result.
func Algorithms(reproducible bool) []string {
	if reproducible {
		return inOrder
	}
	return anyOrder
}

// Cheapest returns the algorithm of [Algorithms] to use for s bytes among n ranks. A ring
// and a tree are never cheapest by this model: the mesh moves as many bytes as a ring in
// fewer rounds, and doubling takes half of a tree's rounds. The model does not know that on
// some networks many senders slow down one receiver.
func (k Cost) Cheapest(s, n int, reproducible bool) (best string) {
	least := 0.0
	for i, a := range Algorithms(reproducible) {
		if t := k.Of(a, s, n); i == 0 || t < least {
			best, least = a, t
		}
	}
	return best
}

// BetweenHosts predicts an all-reduce of s bytes among hosts of several ranks, without what ranks do
// within their hosts, and names the algorithm: "direct", where small contributions of all ranks travel with
// the calls; "chain", where sums in rank order travel from host to host; or, if the order does
// not matter, one of [Algorithms] if that reduces the sums of hosts faster.
func (k Cost) BetweenHosts(s, hosts, perHost int, reproducible bool) (algorithm string, ns float64) {
	if travelsWithCalls(s, hosts, perHost) {
		return algorithmDirect, k.Of(algorithmDirect, s*perHost, hosts)
	}
	algorithm, ns = algorithmChain, k.Of(algorithmChain, s, hosts)
	if reproducible {
		return algorithm, ns
	}
	best := k.Cheapest(s, hosts, false)
	if t := k.Of(best, s, hosts); t < ns {
		return best, t
	}
	return algorithm, ns
}

// travelsWithCalls reports whether contributions of s bytes from each rank of a host are sent with
// its leader's call.
func travelsWithCalls(s, hosts, perHost int) bool {
	return s <= stageSize && s*perHost <= maxInline && s*perHost*(hosts-1) <= attachTotal
}

func (k Cost) String() string {
	return fmt.Sprintf("latency %v, %.2f GB/s, reduction %.1f GB/s", time.Duration(k.Alpha).Round(100*time.Nanosecond), 1/k.Beta, 1/k.Gamma)
}
