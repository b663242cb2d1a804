package main

import (
	"math"

	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// constants are the parameters of the model, of a machine and of a job. All times are in nanoseconds.
type constants struct {
	Cores int     `json:"cores"`
	Step  float64 `json:"step_ns"` // of one rank alone, which communicates with nobody
	CPU   float64 `json:"cpu_ns"`  // CPU time of that step, of all processes of the rank
	Calls int     `json:"calls"`   // collectives per step besides the buckets
	// Buckets are the bytes of each bucket, all equal.
	Buckets int     `json:"buckets"`
	Bytes   float64 `json:"bytes_per_bucket"`

	// Shared is what collectives between ranks of one host cost.
	Shared linear `json:"shared"`
	// Crowded are the kinds of jobs with more ranks than cores, see [crowd].
	Crowded []crowd  `json:"crowded"`
	Net     tcp.Cost `json:"net"` // between hosts
}

// crowd is how long a step keeps a core for each rank where ranks share cores, busy or not:
// that is what adds up, because no two ranks are on a core at once. A part is the same
// for any number of ranks: the pass, the rank's own calls, and its switches to and from its plugins. Another
// grows with the ranks of the job, because a collective compares the calls of all, reads the
// contributions of all, and wakes all.
//
// The kernel moves no rank to another core within a step of a few milliseconds, so the core with the
// most ranks decides: three ranks on two cores take as long as four.
type crowd struct {
	Inproc bool    `json:"inproc"` // plugins run in the processes of their ranks
	Wall   perRank `json:"wall"`
	Busy   float64 `json:"busy"` // share of the cores' time that is CPU time: waits spin
}

// perRank is the time of one rank's step, in nanoseconds, in a job of n ranks: Fixed + n·Peer.
type perRank struct {
	Fixed float64 `json:"fixed_ns"`
	Peer  float64 `json:"ns_per_rank"`
}

func (p perRank) of(ranks int) float64 { return p.Fixed + p.Peer*float64(ranks) }

// perRankThrough explains the times of two jobs.
func perRankThrough(few int, ofFew float64, many int, ofMany float64) perRank {
	peer := max(0, (ofMany-ofFew)/float64(many-few))
	return perRank{Fixed: max(0, (ofFew+ofMany-peer*float64(few+many))/2), Peer: peer}
}

// linear is the cost of a collective: of each, and of each byte.
type linear struct {
	Call float64 `json:"call_ns"`
	Byte float64 `json:"ns_per_byte"`
}

func (l linear) of(bytes float64) float64 { return l.Call + l.Byte*bytes }

// lineThrough is the cost that explains two measurements.
func lineThrough(small, ofSmall, large, ofLarge float64) linear {
	slope := max(0, (ofLarge-ofSmall)/(large-small))
	return linear{Call: max(0, ofSmall-slope*small), Byte: slope}
}

// world is the placement of ranks.
type world struct {
	Ranks int
	Hosts int // 1: all share memory
	Cores int // of all hosts together; 0: every rank has its own

	Inproc bool // plugins run in the processes of their ranks
}

// scalars is the size of what ranks reduce once a step besides gradients.
const scalars = 64

// backward is the share of a step in which gradients become complete, two thirds: the forward
// pass has a third of the products.
const backward = 2.0 / 3

// step predicts the time of a step. Ranks with a core each only wait for each other, and for what
// their plugins take from their core. Where ranks share cores, a step takes as long as the core with the most
// ranks needs for theirs.
func (c *constants) step(w world, algorithm func(bytes, ranks int) float64) float64 {
	path := c.path(w, algorithm)
	switch {
	case w.Cores == 0:
		return path
	case w.Ranks <= w.Cores:
		return max(path, c.CPU*float64(w.Ranks)/float64(w.Cores))
	}
	return max(path, c.crowd(w).Wall.of(w.Ranks)*w.turns())
}

// turns is how many ranks the core with the most ranks has.
func (w world) turns() float64 { return math.Ceil(float64(w.Ranks) / float64(w.Cores)) }

// cpu predicts the CPU time of a step of all ranks, if a step takes a time: the cores that have ranks
// compute, or spin until other ranks have.
func (c *constants) cpu(w world, step float64) float64 {
	if w.Ranks <= w.Cores {
		return max(c.CPU, step) * float64(w.Ranks)
	}
	return c.crowd(w).Busy * step * float64(w.Cores)
}

// crowd returns the kind of a job; a kind that was not measured costs nothing.
func (c *constants) crowd(w world) (found crowd) {
	for _, k := range c.Crowded {
		if k.Inproc == w.Inproc {
			found = k
		}
	}
	return found
}

// path is the time of a step of a rank with its own cores: the pass, and what its reductions,
// one after the other as buckets become complete, take longer (ddp.Pace.Exposed has the same rule).
func (c *constants) path(w world, algorithm func(bytes, ranks int) float64) float64 {
	reduce := func(bytes float64) float64 {
		switch {
		case w.Ranks == 1:
			return 0
		case w.Hosts <= 1:
			return c.Shared.of(bytes)
		case w.Hosts < w.Ranks:
			return c.Shared.of(bytes) + algorithm(int(bytes), w.Hosts)
		}
		return algorithm(int(bytes), w.Ranks)
	}
	free := 0.0
	for i := range c.Buckets {
		ready := c.Step * (1 - backward*float64(c.Buckets-1-i)/float64(c.Buckets))
		free = max(free, ready) + reduce(c.Bytes)
	}
	return max(free, c.Step) + float64(c.Calls)*reduce(scalars)
}

// byAlgorithm is the time of an all-reduce by one algorithm of the backend.
func byAlgorithm(k tcp.Cost, name string) func(bytes, ranks int) float64 {
	return func(bytes, ranks int) float64 { return k.Of(name, bytes, ranks) }
}

// cheapest is the time by the algorithm that the backend chooses.
func cheapest(k tcp.Cost, reproducible bool) func(bytes, ranks int) float64 {
	return func(bytes, ranks int) float64 { return k.Of(k.Cheapest(bytes, ranks, reproducible), bytes, ranks) }
}

// between is the time by what the backend chooses, of hosts with the given number of ranks.
func between(k tcp.Cost, perHost int, reproducible bool) func(bytes, hosts int) float64 {
	if perHost == 1 {
		return cheapest(k, reproducible)
	}
	return func(bytes, hosts int) float64 {
		_, t := k.BetweenHosts(bytes, hosts, perHost, reproducible)
		return t
	}
}

// off is the relative error of a prediction.
func off(predicted, measured float64) float64 { return math.Abs(predicted-measured) / measured }
