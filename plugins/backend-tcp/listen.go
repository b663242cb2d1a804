package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// listener is where peers connect: a TCP listener, and an abstract unix socket
// where ranks of one host can pass descriptors.
type listener struct {
	tcp  net.Listener
	unix net.Listener // nil without shared memory
	host string
}

func (d *listener) close() {
	d.tcp.Close()
	if d.unix != nil {
		d.unix.Close()
	}
}

// Listen opens the rank's listener and returns its address.
func (b *Backend) Listen(ctx context.Context) ([]byte, error) {
	if err := b.life.Begin(); err != nil {
		return nil, err
	}
	defer b.life.End()
	switch {
	case b.srcs == nil:
		return nil, errors.New("backend tcp: Listen before Open")
	case b.listener != nil:
		return nil, errors.New("backend tcp: Listen twice")
	}
	ip, err := b.listenIP(ctx)
	if err != nil {
		return nil, err
	}
	if ip.To4() == nil && ip.IsLinkLocalUnicast() {
		return nil, fmt.Errorf("backend tcp: the address %v is valid on one link only, and other hosts do not know this host's name for it; fix: set backend.options.interface to another address or interface", ip)
	}
	l, err := instance.ListenTCP(ctx, true, ip.String(), b.set.ports)
	if err != nil {
		return nil, fmt.Errorf("backend tcp: listen on %v: %w", ip, err)
	}
	b.listener = &listener{tcp: l}
	e := endpoint{Endpoint: instance.Endpoint{Version: endpointVersion, Rank: b.group.Rank}, TCP: l.Addr().String()}
	if b.set.shm && b.group.WorldSize > 1 {
		if b.listener.unix, b.listener.host, err = listenLocal(); err != nil {
			b.log().Info("no shared memory between ranks", "cause", err)
		} else {
			if b.hostOf != nil {
				b.listener.host += b.hostOf(b.group.Rank)
			}
			e.Host, e.Unix = b.listener.host, b.listener.unix.Addr().String()
		}
	}
	return instance.Encode(e), nil
}

// listenIP finds the address that other ranks can reach.
func (b *Backend) listenIP(ctx context.Context) (net.IP, error) {
	if b.set.iface != "" {
		return namedIP(b.set.iface)
	}
	ip, err := sourceIP(ctx, b.group.MasterAddr)
	if err != nil {
		return nil, fmt.Errorf("backend tcp: no route to the master address %q: %w", b.group.MasterAddr, err)
	}
	// On the master itself its name often resolves to loopback, which ranks
	// on other hosts cannot reach.
	if ip.IsLoopback() && b.group.LocalSize < b.group.WorldSize && b.group.LocalSize > 0 && !isLoopback(b.group.MasterAddr) {
		return outwardIP()
	}
	return ip, nil
}

// sourceIP returns the local address of packets to host. Nothing is sent: connecting a
// UDP socket only looks up the route.
func sourceIP(ctx context.Context, host string) (net.IP, error) {
	if host == "" {
		return net.IPv4(127, 0, 0, 1), nil
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// namedIP returns the address of the interface with that name, or the address itself.
func namedIP(name string) (net.IP, error) {
	if ip := net.ParseIP(name); ip != nil {
		return ip, nil
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("backend tcp: interface = %q is neither an interface nor an IP address: %w", name, err)
	}
	addrs, err := i.Addrs()
	if err != nil {
		return nil, err
	}
	if ip := usableIP(addrs, false); ip != nil {
		return ip, nil
	}
	return nil, fmt.Errorf("backend tcp: interface %s has no IP address", name)
}

// outwardIP returns the first address that other hosts may reach.
func outwardIP() (net.IP, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	if ip := usableIP(addrs, true); ip != nil {
		return ip, nil
	}
	return nil, errors.New("backend tcp: the master address resolves to loopback and this host has no other interface; fix: set backend.options.interface")
}

// usableIP picks the first address, IPv4 first. Link-local addresses need a
// zone that only this host knows.
func usableIP(addrs []net.Addr, outward bool) (found net.IP) {
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() || outward && n.IP.IsLoopback() {
			continue
		}
		if n.IP.To4() != nil {
			return n.IP
		}
		if found == nil {
			found = n.IP
		}
	}
	return found
}
