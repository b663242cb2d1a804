package tcp

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// endpoint describes a rank to the others.
type endpoint struct {
	instance.Endpoint
	TCP  string `json:"tcp"`            // address and port
	Host string `json:"host,omitempty"` // see hostID; empty: no shared memory here
	Unix string `json:"unix,omitempty"` // abstract socket of local peers
}

const endpointVersion = 1

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
type topology struct {
	near    []bool // by rank: shares memory with this one
	perHost int    // see hosts; 0 for any other order
}

// topologyOf returns the topology as seen by rank me.
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
