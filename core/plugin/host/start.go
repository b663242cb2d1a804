package host

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/trainctl/trainctl/core/base/localtls"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/base/tempdir"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/plugin/output"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/sandbox"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// plugin is a running plugin process of any kind, and its connections.
type plugin struct {
	info   sdk.Info
	proc   *process
	client *goplugin.Client
	rpc    pb.PluginClient
	host   *Host
	rules  *sandbox.Rules // that it runs under; nil: none
	stopIn time.Duration  // how long it may take to close

	ring    *shm.Submitter // nil with the inline data plane
	control *shm.Arena
	record  flight.Record

	quit     chan struct{} // ends the supervision
	watched  chan struct{} // closed when it has ended
	wakeMu   sync.Mutex
	wakers   []func() // called when the process is found dead
	ticks    []func() // called on every tick of the supervision
	closing  sync.Once
	closeErr error
}

// start starts a plugin up to the point where it can be opened.
func (h *Host) start(ctx context.Context, kind sdk.Kind, name string) (*plugin, error) {
	if os.Getenv(pb.Handshake.MagicCookieKey) == pb.Handshake.MagicCookieValue {
		return nil, &StartError{Kind: kind, Name: name, Problem: "this process is a plugin itself, and a plugin must not start plugins", Help: "call sdk.Serve before anything else in main"}
	}
	at, err := h.attachment(kind, name)
	if err != nil {
		return nil, refused(kind, name, err)
	}
	if at != nil {
		return h.attach(ctx, kind, name, at)
	}
	prog, failed := h.locate(kind, name)
	if failed != nil {
		return nil, failed
	}
	defer prog.close()
	rules := prog.rules(h.terms(kind, name))
	if rules != nil {
		if prog, err = h.sandboxed(prog, *rules); err != nil {
			return nil, refused(kind, name, err)
		}
	}
	cert, secured, err := localtls.Client()
	if err != nil {
		return nil, refused(kind, name, err)
	}
	proc, err := h.newChild(kind, name, prog, output.New(h.opts.Log.With("plugin", name)))
	if err != nil {
		return nil, &StartError{Kind: kind, Name: name, Problem: err.Error(), Err: err}
	}
	proc.origin.setEnv(pb.EnvClientCert + "=" + string(cert))
	p, err := h.begin(ctx, proc, secured, rules)
	if err == nil && prog.builtin != nil {
		p.info.Name = name
		p.stopIn = cmp.Or(prog.builtin.StopTimeout, p.stopIn)
	}
	return p, err
}

// begin starts a prepared process and connects to it. Without secured, the connection is not
// encrypted.
func (h *Host) begin(ctx context.Context, proc *process, secured *tls.Config, rules *sandbox.Rules) (*plugin, error) {
	p := &plugin{proc: proc, host: h, rules: rules, stopIn: h.opts.StopTimeout, quit: make(chan struct{}), watched: make(chan struct{})}
	p.client = goplugin.NewClient(h.clientConfig(proc, secured))
	ctx, cancel := context.WithTimeout(ctx, h.opts.StartTimeout)
	defer cancel()
	if err := p.connect(ctx); err != nil {
		return nil, p.abandon(ctx, err)
	}
	go p.supervise()
	return p, nil
}

func (h *Host) clientConfig(proc *process, secured *tls.Config) *goplugin.ClientConfig {
	dial := []grpc.DialOption{
		grpc.WithIdleTimeout(0), // the socket's file is gone once we are connected
	}
	if h.opts.Trace != nil {
		dial = append(dial, grpc.WithUnaryInterceptor(h.intercept))
	}
	return &goplugin.ClientConfig{
		HandshakeConfig:  pb.Handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{pb.ProtocolVersion: {pb.ServiceName: service{}}},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (runner.Runner, error) {
			proc.origin.setEnv(spec.Env...)
			proc.socketDir = dir
			return proc, nil
		},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        secured, // go-plugin adds the plugin's certificate from the handshake
		SkipHostEnv:      true,
		StartTimeout:     h.opts.StartTimeout,
		Logger:           hclog.NewNullLogger(),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: h.socketHome()},
		GRPCDialOptions:  dial,
	}
}

func (h *Host) socketHome() string {
	if h.opts.SocketDir != "" {
		return h.opts.SocketDir
	}
	return tempdir.Home()
}

// service turns go-plugin's connection into our client.
type service struct {
	goplugin.NetRPCUnsupportedPlugin
}

// GRPCServer implements goplugin.GRPCPlugin; the host never serves.
func (service) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return errors.ErrUnsupported }

// GRPCClient implements goplugin.GRPCPlugin.
func (service) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return pb.NewPluginClient(conn), nil
}

// connect starts the process and performs handshake, Info and Start.
func (p *plugin) connect(ctx context.Context) error {
	// go-plugin has no contexts: killing the process ends its waits.
	defer context.AfterFunc(ctx, p.proc.killGroup)()
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(pb.ServiceName)
	if err != nil {
		return err
	}
	p.rpc = raw.(pb.PluginClient)
	info, err := p.rpc.Info(ctx, &pb.InfoRequest{})
	if err != nil {
		return fromStatus(err)
	}
	if p.info, err = infoFromProto(info); err != nil {
		return err
	}
	if p.info.Kind != p.proc.kind {
		return fmt.Errorf("it is %s plugin", p.info.Kind.Phrase())
	}
	if err := registry.Allow(p.host.terms(p.proc.kind, p.proc.name).Version, p.info.Version); err != nil {
		return err
	}
	// The connection is never made again, so the socket's file can be removed.
	_ = os.RemoveAll(p.proc.socketDir)
	return p.startDataPlane(ctx, info.DataPlanes)
}

func (p *plugin) startDataPlane(ctx context.Context, planes []string) error {
	if !slices.Contains(planes, pb.PlaneShm) || os.Getenv(pb.EnvDataPlane) == pb.PlaneInline {
		_, err := p.rpc.Start(ctx, &pb.StartRequest{DataPlane: pb.PlaneInline})
		return err
	}
	control, err := shm.New("control", shm.ControlSize)
	if err != nil {
		return err
	}
	p.control = control
	if p.ring, err = shm.NewSubmitter(control.Bytes(), shm.DefaultBell()); err != nil {
		return err
	}
	if err := p.sendFile(ctx, 0, control.File()); err != nil {
		return err
	}
	_, err = p.rpc.Start(ctx, &pb.StartRequest{DataPlane: pb.PlaneShm, ControlSize: shm.ControlSize})
	return err
}

func (p *plugin) sendFile(ctx context.Context, tag uint64, f *os.File) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(p.host.opts.StartTimeout)
	}
	if err := p.proc.link.SetWriteDeadline(deadline); err != nil {
		return err
	}
	return shm.SendFile(p.proc.link, tag, f)
}

// attach shares an arena with the plugin under an id above 0.
func (p *plugin) attach(ctx context.Context, id uint32, name string, a *shm.Arena) error {
	if err := p.sendFile(ctx, uint64(id), a.File()); err != nil {
		return err
	}
	_, err := p.rpc.AttachArena(ctx, &pb.AttachArenaRequest{Id: id, Name: name, Size: uint64(a.Size())})
	return err
}

// abandon ends a plugin that could not be started and returns why.
func (p *plugin) abandon(ctx context.Context, cause error) error {
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	started := p.proc.pid() != 0
	ended := started && p.proc.endsWithin(patienceAfter(ctx, cause)) && !p.proc.wasKilled()
	p.proc.killGroup()
	p.client.Kill()
	if started {
		<-p.proc.dead
	}
	_ = p.proc.link.Close()
	_ = p.proc.origin.release()
	_ = os.RemoveAll(p.proc.socketDir)
	if p.control != nil {
		_ = p.control.Close()
	}
	e := &StartError{Kind: p.proc.kind, Name: p.proc.name, Err: cause}
	if started {
		e.LastLines = p.proc.lastLines() // reads all output: the handshake may be in it
	}
	e.Fault = ended && p.proc.signaled || (ended || timedOut) && p.proc.known()
	p.explain(ctx, e, ended, timedOut)
	if refused := p.refused(e.LastLines); refused != "" {
		e.Help = refused
	}
	return e
}

// patienceAfter is how long to wait for the process to end after a failed start: a
// broken connection may be the first sign of its death; a refusal or a timeout is
// not.
func patienceAfter(ctx context.Context, cause error) time.Duration {
	var refused *sdk.Error
	if ctx.Err() != nil || errors.As(cause, &refused) && refused.Code != "" {
		return lastMoment
	}
	return silentDeath
}

func (p *plugin) explain(ctx context.Context, e *StartError, ended, timedOut bool) {
	const foreign = "is it a plugin for trainctl, built for this machine?"
	switch version := p.proc.version; {
	case p.proc.pid() == 0:
		e.Problem = e.Err.Error()
		e.Help = cmp.Or(usererr.Shortage(e.Problem), foreign)
	case version != 0 && version != pb.ProtocolVersion:
		e.Problem = fmt.Sprintf("it speaks version %d of the plugin protocol, this trainctl speaks %d", version, pb.ProtocolVersion)
		e.Help = "build the plugin against this trainctl's core/sdk, or use the trainctl it was built for"
	case timedOut:
		e.Problem = fmt.Sprintf("it was not ready within %v", p.host.opts.StartTimeout)
		if !e.Fault {
			e.Help = "move its set-up to Open; before that it must not wait for anything"
		}
	case ctx.Err() != nil:
		e.Problem, e.Err = "the start was cancelled", ctx.Err()
	case ended && e.Fault:
		e.Problem = "its process ended during start-up: " + p.proc.status
	case ended:
		e.Problem, e.Help = "it ended at once: "+p.proc.status, cmp.Or(missingModule(e.LastLines), foreign)
	case version == 0:
		e.Problem, e.Help = "it closed its output without the handshake of a plugin", foreign
	default:
		e.Problem = e.Err.Error()
	}
}

// missingModule is the fix for a Python plugin whose interpreter lacks a package.
func missingModule(lines []string) string {
	for _, line := range lines {
		if _, name, ok := strings.Cut(line, "ModuleNotFoundError: No module named "); ok {
			return fmt.Sprintf("install the Python package %s for the interpreter that the plugin's first line names, such as with pip install -r requirements.txt", name)
		}
	}
	return ""
}

// error wraps the error of a call. If the process died, it reports the death
// instead of its symptoms.
func (p *plugin) error(phase string, err error) error {
	if err == nil {
		return nil
	}
	cause := fromStatus(err)
	if unreachable(err) {
		p.proc.endsWithin(500 * time.Millisecond) // it has probably died
	}
	e := &PluginError{Kind: p.proc.kind, Name: p.proc.name, PID: p.proc.pid(), Phase: phase, Cause: cause}
	if failure := p.proc.failure(); failure != nil {
		if errors.Is(failure, ErrHung) {
			p.proc.endsWithin(2 * lastStack) // it is being asked where it hangs
		}
		e.Cause = failure
		e.LastLines, e.Stack = p.proc.lastLines(), p.proc.out.Hanging()
		e.LastFlight = p.record.Last(p.ring)
	}
	e.Refused = p.refused(append(e.LastLines, e.Cause.Error()))
	if brokeDown(e.Cause) {
		e.Build = p.info.Name + " " + p.info.Version
	}
	return e
}

// name implements owner.
func (p *plugin) name(op *operation) string { return p.record.Name(op.code, op.call.Seq) }

// refused says what the sandbox refused, as far as lines of the plugin tell; "" if nothing.
func (p *plugin) refused(lines []string) string {
	if p.rules == nil {
		return ""
	}
	return p.rules.Refused(lines...)
}

// queue returns the negotiated data plane; call runs one operation inline.
func (p *plugin) queue(call func(context.Context, *operation, *sdk.ScaleState) error) queue {
	var q queue
	if p.ring != nil {
		q = p.traced(newRingQueue(p))
	} else {
		q = newCallQueue(p, call, 0) // the plugin enforces the operation's deadline
	}
	if p.attached() {
		return unlimited{q}
	}
	return q
}

func (p *plugin) failure() error { return p.proc.failure() }

func (p *plugin) abort(cause error) { p.proc.abort(cause) }

func (p *plugin) pid() int {
	if p == nil {
		return 0
	}
	return p.proc.pid()
}

// Describe returns the Info of a plugin as named in the TOML. A built-in plugin is
// queried in this process; a plugin given by path is started briefly. The error is a
// *StartError.
func (h *Host) Describe(ctx context.Context, kind sdk.Kind, plugin string) (sdk.Info, error) {
	b := h.builtin(kind, plugin)
	if b == nil {
		return h.Probe(ctx, kind, plugin)
	}
	info, err := b.info()
	if err == nil {
		err = registry.Allow(h.terms(kind, plugin).Version, info.Version)
	}
	if err != nil {
		return info, refused(kind, plugin, err)
	}
	return info, nil
}

// Probe starts a plugin's process, even a built-in one's, shakes hands with it,
// gets its Info and ends it.
func (h *Host) Probe(ctx context.Context, kind sdk.Kind, plugin string) (sdk.Info, error) {
	p, err := h.start(ctx, kind, plugin)
	if err != nil {
		return sdk.Info{}, err
	}
	return p.info, p.close(ctx, p.queue(nil))
}
