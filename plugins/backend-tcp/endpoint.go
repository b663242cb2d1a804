package tcp

import (
	"errors"
	"net/netip"

	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// endpoint describes a rank to the others.
type endpoint struct {
	instance.Endpoint
	TCP  string `json:"tcp"`            // address and port
	Host string `json:"host,omitempty"` // see hostID; empty: no shared memory here
	Unix string `json:"unix,omitempty"` // abstract socket of local peers
}

const endpointVersion = 2

// Check returns what is wrong with the addresses.
func (e endpoint) Check() error {
	if _, err := netip.ParseAddrPort(e.TCP); err != nil {
		return err
	}
	if (e.Host == "") != (e.Unix == "") {
		return errors.New("host and unix must both be set or both be empty")
	}
	return nil
}

// topology is the placement of ranks on hosts. It follows from the endpoints, so all
// ranks have the same.
//
// A host here is a run of consecutive ranks that share memory: if ranks of one machine
// are not consecutive, it counts as several hosts, so that sums in rank order can be passed from
// host to host. The first rank of a host leads it: it alone has connections with the
// other ranks of its host and with the leaders of the other hosts. The k-th ranks of neighbour
// hosts are connected as well, for every k that all hosts have.
type topology struct {
	host  []int // by rank
	first []int // by host: its first rank
	rank  int   // of this process
	me    int   // its host
	rails int   // how many ranks of each host are connected with neighbour hosts
}

// topologyOf returns the topology as seen by rank me. If flat, or if any rank can share no memory,
// every rank counts as a host.
func topologyOf(all []endpoint, me int, flat bool) topology {
	t := topology{rank: me, rails: len(all)}
	for _, e := range all {
		flat = flat || e.Host == ""
	}
	for r, e := range all {
		if r == 0 || flat || e.Host != all[r-1].Host {
			t.first = append(t.first, r)
		}
		t.host = append(t.host, len(t.first)-1)
	}
	for h := range t.first {
		t.rails = min(t.rails, t.size(h))
	}
	t.me = t.host[me]
	return t
}

func (t *topology) hosts() int { return len(t.first) }

// end returns the rank after the last of a host.
func (t *topology) end(host int) int {
	if host == len(t.first)-1 {
		return len(t.host)
	}
	return t.first[host+1]
}

func (t *topology) size(host int) int { return t.end(host) - t.first[host] }

// largest returns the number of ranks of the largest host.
func (t *topology) largest() (n int) {
	for h := range t.first {
		n = max(n, t.size(h))
	}
	return n
}

// leader returns the rank that leads this process's host.
func (t *topology) leader() int { return t.first[t.me] }

func (t *topology) leads(rank int) bool { return rank == t.first[t.host[rank]] }

// near reports whether another rank shares memory with this one.
func (t *topology) near(rank int) bool {
	return rank >= 0 && rank < len(t.host) && rank != t.rank && t.host[rank] == t.me
}

// local returns this host's ranks.
func (t *topology) local() (from, to int) { return t.first[t.me], t.end(t.me) }

// rail returns the rank in the same position on another host, or -1 if there is none.
func (t *topology) rail(host int) int {
	k := t.rank - t.first[t.me]
	if host < 0 || host >= len(t.first) || k >= t.rails {
		return -1
	}
	return t.first[host] + k
}

// peers reports whether this rank has connections with another from the start.
func (t *topology) peers(rank int) bool {
	switch {
	case rank == t.rank:
		return false
	case t.near(rank):
		return t.leads(rank) || t.leads(t.rank)
	case t.leads(rank) && t.leads(t.rank):
		return true
	}
	return rank == t.rail(t.me-1) || rank == t.rail(t.me+1)
}

// full reports whether every rank has connections with every other.
func (t *topology) full() bool { return len(t.host) == len(t.first) || len(t.host) == 2 }
