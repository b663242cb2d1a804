package tcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// endpoint is what a rank tells the others about itself. It travels through
// the core as JSON.
type endpoint struct {
	Version int    `json:"v"`
	Rank    int    `json:"rank"`
	TCP     string `json:"tcp"`            // address and port
	Host    string `json:"host,omitempty"` // see hostID; empty: no shared memory here
	Unix    string `json:"unix,omitempty"` // abstract socket of local peers
}

const (
	endpointVersion = 1
	maxEndpoint     = 4 << 10
)

func (e endpoint) encode() []byte {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return raw
}

// parseEndpoint reads what rank's Listen returned.
func parseEndpoint(raw []byte, rank int) (endpoint, error) {
	var e endpoint
	if len(raw) > maxEndpoint {
		return e, fmt.Errorf("endpoint of rank %d has %d bytes, more than %d", rank, len(raw), maxEndpoint)
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("endpoint of rank %d: %w", rank, err)
	}
	if e.Version != endpointVersion {
		return e, fmt.Errorf("endpoint of rank %d has version %d, this plugin speaks %d: use the same plugin on all ranks",
			rank, e.Version, endpointVersion)
	}
	if e.Rank != rank {
		return e, fmt.Errorf("endpoint of rank %d says it is rank %d", rank, e.Rank)
	}
	if _, err := netip.ParseAddrPort(e.TCP); err != nil {
		return e, fmt.Errorf("endpoint of rank %d: %w", rank, err)
	}
	if (e.Host == "") != (e.Unix == "") {
		return e, fmt.Errorf("endpoint of rank %d: %w", rank, errors.New("host and unix go together"))
	}
	return e, nil
}

// topology is how the ranks lie on hosts. All ranks see the same endpoints, so
// they agree on it.
type topology struct {
	near    []bool // by rank: shares memory with this one
	perHost int    // see hosts; 0 for any other order
}

// topologyOf looks from rank me.
func topologyOf(all []endpoint, me int) topology {
	t := topology{near: make([]bool, len(all)), perHost: perHost(all)}
	if !allLocal(all) && t.perHost == 0 {
		return t // sockets everywhere
	}
	for r, e := range all {
		t.near[r] = r != me && e.Host == all[me].Host
	}
	return t
}

// shares reports whether there is any rank to share memory with.
func (t topology) shares() bool { return slices.Contains(t.near, true) }

// perHost is n where ranks 0 to n-1 are on one host, the next n on another and
// so on, with at least two hosts of at least two ranks; otherwise 0.
func perHost(all []endpoint) int {
	n := 0
	for n < len(all) && all[n].Host == all[0].Host {
		n++
	}
	if n < 2 || n == len(all) || len(all)%n != 0 {
		return 0
	}
	first := map[string]bool{}
	for r, e := range all {
		if e.Host == "" || e.Host != all[r-r%n].Host || r%n == 0 && first[e.Host] {
			return 0
		}
		first[e.Host] = true
	}
	return n
}

// allLocal reports whether every rank can share memory with every other.
func allLocal(all []endpoint) bool {
	for _, e := range all {
		if e.Host == "" || e.Host != all[0].Host {
			return false
		}
	}
	return true
}
