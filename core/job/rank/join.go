package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/hostnet"
	"github.com/trainctl/trainctl/core/job/secret"
)

// JoinOptions shape how a rank finds its job's store.
type JoinOptions struct {
	Secret      secret.Secret                    // of the job; zero: SecretOf(w, "")
	Ports       hostnet.Ports                    // where rank 0 listens, if it hosts the store; any: see Join
	Env         Lookup                           // nil: os.LookupEnv
	OnWait      func(Progress)                   // as in DialOptions
	ReportEvery time.Duration                    // as in DialOptions
	Log         func(format string, args ...any) // as in StoreOptions, on the rank that hosts
}

// agentPorts is how many ports beyond MASTER_PORT are tried under torchrun.
const agentPorts = 16

// Join connects this rank to the store of its job and hosts the store if this rank
// has to:
//
//   - With TRAINCTL_STORE the launcher hosts it at that address.
//   - Under torchrun (TORCHELASTIC_USE_AGENT_STORE=True) MASTER_PORT belongs to
//     torch's own store. Rank 0 takes the first free port of the 16 above it,
//     the others look for it there.
//   - A single rank takes any free port.
//   - Otherwise rank 0 hosts it on MASTER_PORT.
//
// ctx bounds the whole call. The caller closes the Client; the rank that hosts the
// store does so after the last use by any rank.
func Join(ctx context.Context, w World, o JoinOptions) (*Client, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.Secret.IsZero() {
		var err error
		if o.Secret, err = SecretOf(w, ""); err != nil {
			return nil, err
		}
	}
	d := DialOptions{RunID: w.RunID, Secret: o.Secret, Rank: w.Rank, Size: w.Size, Generation: w.RestartCount, OnWait: o.OnWait, ReportEvery: o.ReportEvery,
		PublicName: fmt.Sprintf("%s at port %d", w.RunID, w.MasterPort)}
	if addr, ok := o.Env(EnvStore); ok && addr != "" {
		return DialStore(ctx, addr, d)
	}
	ports := storePorts(w, o)
	if w.Rank == 0 {
		return hostStore(ctx, w, ports, d, o)
	}
	addrs := make([]string, len(ports))
	for i, p := range ports {
		addrs[i] = net.JoinHostPort(w.MasterAddr, strconv.Itoa(p))
	}
	return search(ctx, addrs, d.filled())
}

// storePorts are the ports that the store may listen on, in the order in which they
// are tried.
func storePorts(w World, o JoinOptions) (ports []int) {
	if w.Size == 1 {
		return []int{0} // only rank 0 looks for it
	}
	first, last := w.MasterPort, w.MasterPort
	if agent, _ := o.Env("TORCHELASTIC_USE_AGENT_STORE"); agent == "True" {
		first, last = w.MasterPort+1, w.MasterPort+agentPorts
	}
	if w.LocalSize < w.Size && !o.Ports.Any() && !(first == last && o.Ports.Holds(first)) {
		first, last = o.Ports.First, o.Ports.Last
	}
	for p := first; p <= min(last, 65535); p++ {
		if !(p == w.MasterPort && first < last) { // that one is torch's
			ports = append(ports, p)
		}
	}
	return ports
}

// hostStore binds the first free port of ports and connects to it.
func hostStore(ctx context.Context, w World, ports []int, d DialOptions, o JoinOptions) (*Client, error) {
	host := hostnet.LocalHost(w.MasterAddr)
	if w.Size == w.LocalSize {
		host = w.MasterAddr
	}
	so := StoreOptions{RunID: w.RunID, Secret: d.Secret, WorldSize: w.Size, Generation: w.RestartCount, PublicName: d.PublicName, Log: o.Log}
	var s *Server
	err := error(fmt.Errorf("no port above MASTER_PORT %d", w.MasterPort))
	for _, p := range ports {
		s, err = ListenStore(net.JoinHostPort(host, strconv.Itoa(p)), so)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) && len(ports) > 1 {
		return nil, fmt.Errorf("the job's store found no free port from %d to %d on this host; fix: widen launch.port_range to at least two ports more than ranks: %w", ports[0], ports[len(ports)-1], err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (MASTER_PORT chooses the port)", err)
	}
	dial := host
	if host == "" {
		dial = "localhost"
	}
	c, err := DialStore(ctx, net.JoinHostPort(dial, strconv.Itoa(s.Addr().Port)), d)
	if err != nil {
		s.Close()
		return nil, err
	}
	c.host = s
	return c, nil
}
