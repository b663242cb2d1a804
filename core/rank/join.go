package rank

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// JoinOptions shape how a rank finds its job's store.
type JoinOptions struct {
	Env         Lookup                           // nil: os.LookupEnv
	OnWait      func(Progress)                   // as in DialOptions
	ReportEvery time.Duration                    // as in DialOptions
	OnLeave     func(rank int, err error)        // as in StoreOptions, on the rank that hosts
	Log         func(format string, args ...any) // as in StoreOptions, on the rank that hosts
}

// agentPorts is how many ports beyond MASTER_PORT are tried under torchrun.
const agentPorts = 16

// Join connects this rank to the store of its job, hosting it where that is
// this rank's task:
//
//   - With TRAINCTL_STORE the launcher hosts it there.
//   - Under torchrun (TORCHELASTIC_USE_AGENT_STORE=True) MASTER_PORT belongs to
//     torch's own store. Rank 0 takes the first free port of the 16 above it,
//     the others look for it there.
//   - Otherwise rank 0 hosts it on MASTER_PORT.
//
// The secret is TRAINCTL_JOB_SECRET, or derived from the run id, which only
// guards against mix-ups between jobs. ctx bounds the whole of it. The caller
// closes the Client after the last use by any rank it answers to.
func Join(ctx context.Context, w World, o JoinOptions) (*Client, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	d := DialOptions{RunID: w.RunID, Rank: w.Rank, Size: w.Size, Generation: w.RestartCount, OnWait: o.OnWait, ReportEvery: o.ReportEvery}
	if text, ok := o.Env(EnvSecret); ok && text != "" {
		secret, err := hex.DecodeString(text)
		if err != nil {
			return nil, &EnvError{Source: w.Source, Var: EnvSecret, Detail: EnvSecret + " is not hexadecimal"}
		}
		d.Secret = secret
	}
	if addr, ok := o.Env(EnvStore); ok && addr != "" {
		return DialStore(ctx, addr, d)
	}
	ports := []int{w.MasterPort}
	if agent, _ := o.Env("TORCHELASTIC_USE_AGENT_STORE"); agent == "True" {
		ports = portsAfter(w.MasterPort)
	}
	if w.Rank == 0 {
		return hostStore(ctx, w, ports, d, o)
	}
	addrs := make([]string, len(ports))
	for i, p := range ports {
		addrs[i] = net.JoinHostPort(w.MasterAddr, strconv.Itoa(p))
	}
	return dialAny(ctx, addrs, d.filled())
}

func portsAfter(port int) []int {
	var ports []int
	for p := port + 1; p <= port+agentPorts && p <= 65535; p++ {
		ports = append(ports, p)
	}
	return ports
}

// hostStore binds the first free port of ports and connects to it.
func hostStore(ctx context.Context, w World, ports []int, d DialOptions, o JoinOptions) (*Client, error) {
	host := "" // all interfaces: peers on other hosts know rank 0 by a name of its own
	if w.Size == w.LocalSize {
		host = w.MasterAddr
	}
	so := StoreOptions{RunID: w.RunID, Secret: d.Secret, WorldSize: w.Size, Generation: w.RestartCount, OnLeave: o.OnLeave, Log: o.Log}
	var s *Server
	err := error(fmt.Errorf("no port above MASTER_PORT %d", w.MasterPort))
	for _, p := range ports {
		s, err = ListenStore(net.JoinHostPort(host, strconv.Itoa(p)), so)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w (MASTER_PORT chooses the port)", err)
	}
	dial := w.MasterAddr
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
