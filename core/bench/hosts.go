package bench

import (
	"errors"
	"fmt"
)

// ErrNoHosts reports that network namespaces cannot be created here. It is wrapped with
// the reason.
var ErrNoHosts = errors.New("network namespaces are unavailable")

// Hosts are network namespaces of this machine, connected by a private network.
// Processes in them see separate hosts: neither loopback nor abstract sockets connect
// them, and every byte between them passes through a virtual Ethernet device. Close
// removes them.
type Hosts struct {
	names  []string
	joined string // the namespace of the switch that joins more than two
}

// Len is the number of hosts.
func (h *Hosts) Len() int { return len(h.names) }

// Name is the name of the i-th host's namespace, for "ip -n NAME" and "tc -n NAME".
func (h *Hosts) Name(i int) string { return h.names[i] }

// Addr is the i-th host's address.
func (h *Hosts) Addr(i int) string { return fmt.Sprintf("10.213.77.%d", i+1) }

func (h *Hosts) device() string {
	if h.Len() == 0 {
		return "lo"
	}
	return h.Device()
}

// Device is the name of the hosts' network device, the same on all.
func (h *Hosts) Device() string { return "eth0" }
