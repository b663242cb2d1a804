package hostnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Ports is a range of ports, both ends inclusive. Its zero value is any port.
type Ports struct{ First, Last int }

// ParsePorts reads "29400-29500", or one port. "" is any port.
func ParsePorts(s string) (Ports, error) {
	if s == "" {
		return Ports{}, nil
	}
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	first, err1 := strconv.Atoi(strings.TrimSpace(from))
	last, err2 := strconv.Atoi(strings.TrimSpace(to))
	if err1 != nil || err2 != nil || first < 1 || last > 65535 || first > last {
		return Ports{}, fmt.Errorf("%q is not a range of ports", s)
	}
	return Ports{first, last}, nil
}

// PortsOf reads a plugin's option port_range, [first, last]; empty is any port.
func PortsOf(r []int64) (Ports, error) {
	if len(r) == 0 {
		return Ports{}, nil
	}
	if len(r) != 2 || r[0] < 1 || r[1] > 65535 || r[0] > r[1] {
		return Ports{}, fmt.Errorf("port_range = %v is not [first, last] with 1 ≤ first ≤ last ≤ 65535", r)
	}
	return Ports{int(r[0]), int(r[1])}, nil
}

// Any reports whether the range is any port.
func (p Ports) Any() bool { return p == Ports{} }

// Holds reports whether a port is in the range.
func (p Ports) Holds(port int) bool { return p.Any() || p.First <= port && port <= p.Last }

func (p Ports) String() string { return fmt.Sprintf("%d-%d", p.First, p.Last) }

// Listen listens on the first free port of the range, or on any port, with the
// settings of keepalive.Listener. An empty host means all interfaces.
func Listen(ctx context.Context, lc net.ListenConfig, host string, ports Ports) (net.Listener, error) {
	for port := ports.First; port <= ports.Last; port++ {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		if ports.First == ports.Last {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no port of %v is free on this host: %w", ports, syscall.EADDRINUSE)
}

// LocalHost returns host if it is an address of this machine. It returns "" (all
// interfaces) for a name, which other hosts may resolve differently, and for an
// address that only other hosts use, such as that of a service.
func LocalHost(host string) string {
	ip := net.ParseIP(host)
	if ip == nil || ip.IsUnspecified() {
		return ""
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return host
		}
	}
	if ip.IsLoopback() {
		return host // all of 127.0.0.0/8 is local
	}
	return ""
}
