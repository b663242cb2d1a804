package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/plugin/output"
	"github.com/trainctl/trainctl/core/plugin/reattach"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// attached is a process that a person has started, perhaps in a debugger. A connection to it
// takes the place of a child's standard output, which has the handshake, and of its descriptor
// 3. It is not a child of this process, so its end is the end of the connection; it is never
// killed, and never started again. Its output stays where the person sees it.
type attached struct {
	p    *process
	at   *reattach.Process
	line string // its handshake
	id   int    // of the process, 0 until started; under p.mu
}

// patience is how long a plugin may take that a debugger may hold at a breakpoint.
const patience = 24 * time.Hour

// attachment returns the process of a plugin that is to be attached, nil if none is. The error
// is a *registry.Problem.
func (h *Host) attachment(kind sdk.Kind, name string) (*reattach.Process, error) {
	if h.BuiltIn(kind, name) {
		return nil, nil
	}
	set, err := reattach.FromEnv()
	if err != nil {
		return nil, err
	}
	return set.Process(name, h.opts.LocalRank)
}

// Attached says which process of TRAINCTL_REATTACH serves a plugin; "" if none does.
func (h *Host) Attached(kind sdk.Kind, name string) string {
	if at, err := h.attachment(kind, name); err == nil && at != nil {
		return at.String()
	}
	return ""
}

// CheckAttached returns why the process that TRAINCTL_REATTACH names for a plugin cannot be used, as
// far as that is known without it. The error is a *StartError.
func (h *Host) CheckAttached(kind sdk.Kind, name string) error {
	if _, err := h.attachment(kind, name); err != nil {
		return refused(kind, name, err)
	}
	return nil
}

// attach connects to the process of a plugin.
func (h *Host) attach(ctx context.Context, kind sdk.Kind, name string, at *reattach.Process) (*plugin, error) {
	o := h.opts
	o.StartTimeout, o.HangTimeout, o.StopTimeout = patience, patience, patience
	h = &Host{opts: o}
	p := makeProcess(kind, name, output.New(h.opts.Log.With("plugin", name)))
	a := &attached{p: p, at: at}
	p.origin = a
	if err := a.dial(ctx, h); err != nil {
		return nil, refused(kind, name, err)
	}
	return h.begin(ctx, p, nil, nil)
}

// quiet is how long a process may be silent before the person is told.
const quiet = 5 * time.Second

// dial connects, and gets the handshake. The error is a *registry.Problem.
func (a *attached) dial(ctx context.Context, h *Host) error {
	conn, err := new(net.Dialer).DialContext(ctx, a.at.Addr.Network, a.at.Addr.String)
	if err != nil {
		text := fmt.Sprintf("%s cannot be reached: %v", a.at, err)
		if unix.Kill(a.at.Pid, 0) == unix.ESRCH {
			text = fmt.Sprintf("%s has ended", a.at)
		}
		return &registry.Problem{Text: text, Help: reattach.Help, Err: err}
	}
	a.p.link = conn.(*net.UnixConn)
	defer context.AfterFunc(ctx, a.close)()
	defer time.AfterFunc(quiet, func() {
		h.opts.Log.Warn("the attached plugin does not answer; does a debugger hold it?", "plugin", a.p.name, "process", a.at.String())
	}).Stop()
	if err := json.NewEncoder(conn).Encode(pb.Attach{Kind: string(a.p.kind), PID: os.Getpid()}); err != nil {
		a.close()
		return &registry.Problem{Text: fmt.Sprintf("%s closed the connection: %v", a.at, err), Help: reattach.Help, Err: err}
	}
	a.line, err = bufio.NewReader(conn).ReadString('\n') // nothing follows before it is used
	if err := a.refused(err); err != nil {
		a.close()
		return err
	}
	return nil
}

// refused is why the answer is no handshake; nil if it is one.
func (a *attached) refused(err error) error {
	version, ok := handshakeVersion(a.line)
	said := strings.TrimSpace(a.line)
	switch {
	case ok && version == pb.ProtocolVersion:
		return nil
	case ok:
		return &registry.Problem{Text: fmt.Sprintf("%s speaks version %d of the plugin protocol, this trainctl speaks %d", a.at, version, pb.ProtocolVersion),
			Help: "build the plugin against this trainctl's core/sdk, or use the trainctl it was built for"}
	case said != "":
		return &registry.Problem{Text: fmt.Sprintf("%s refuses: %s", a.at, said), Help: "set the variable to the line of a " + string(a.p.kind) + " plugin, or name another plugin in the configuration"}
	}
	return &registry.Problem{Text: fmt.Sprintf("%s closed the connection: %v", a.at, err), Help: reattach.Help, Err: err}
}

func (*attached) setEnv(...string) {} // it has its own environment

func (a *attached) start() error {
	p := a.p
	p.mu.Lock()
	defer p.mu.Unlock()
	a.id = a.at.Pid
	go func() {
		p.takeHandshake([]byte(strings.TrimSpace(a.line)))
		_, _ = io.Copy(io.Discard, p.link) // nothing comes any more, until it ends
		p.status = fmt.Sprintf("%s has ended or closed the connection, and a plugin that was attached is not started again", a.at)
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.silent)
		close(p.drained)
		close(p.dead)
	}()
	return nil
}

func (a *attached) pid() int {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.id
}

// kill closes the connection; the process goes on and can be attached again.
func (a *attached) kill() { a.close() }

func (a *attached) close() { _ = a.p.link.Close() }

func (*attached) stacks() {}

func (*attached) release() error { return nil }

// attached reports whether a person has started the plugin; false for nil.
func (p *plugin) attached() bool {
	if p == nil {
		return false
	}
	_, ok := p.proc.origin.(*attached)
	return ok
}

// unlimited is the queue of a plugin that a debugger may hold.
type unlimited struct{ queue }

func (unlimited) limit(time.Duration) {}
