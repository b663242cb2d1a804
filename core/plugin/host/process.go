package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/plugin/output"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// process runs one plugin's executable in its own process group. It implements
// go-plugin's runner interface, because go-plugin's runner notices a death only
// after every grandchild has closed the pipes, and kills one process instead of the
// group.
type process struct {
	kind   sdk.Kind
	name   string
	cmd    *exec.Cmd
	out    *output.Lines
	link   *net.UnixConn // our end of the plugin's descriptor 3
	child  *os.File      // its end, until it is started
	passed []*os.File    // our copies of descriptors of the launcher, until it is started

	handshake  io.ReadCloser // what go-plugin reads
	handshakeW *io.PipeWriter
	version    int    // the protocol version of the handshake, 0 = none came
	socketDir  string // created by go-plugin for only this process

	dead    chan struct{} // closed when the process has ended
	silent  chan struct{} // closed when its standard output is
	drained chan struct{} // closed when its last lines have been read
	status  string        // how it ended; valid after dead
	oom     int           // count of the kernel's out-of-memory kills before it was started

	signaled bool // a signal ended it; valid after dead
	builtin  bool // served by this program

	mu     sync.Mutex
	cause  error // why it can no longer be used
	id     int   // of the process and its group, 0 until started
	doomed bool  // we killed it, perhaps before it was started
}

// newProcess prepares the process of a program; Start starts it.
func newProcess(kind sdk.Kind, name string, prog *program, env []string, out *output.Lines) (*process, error) {
	p := &process{kind: kind, name: name, out: out, oom: cgroup.OOMKills(), dead: make(chan struct{}), silent: make(chan struct{}), drained: make(chan struct{})}
	var err error
	if p.link, p.child, err = socketPair(); err != nil {
		return nil, err
	}
	p.handshake, p.handshakeW = io.Pipe()
	p.cmd = exec.Command(prog.path, prog.args...)
	p.cmd.ExtraFiles = []*os.File{p.child}
	p.builtin = prog.builtin != nil
	if prog.file != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, prog.file)
		if !prog.within {
			p.cmd.Path = executablePath(prog)
		}
	}
	if err := p.passDescriptors(env); err != nil {
		return nil, errors.Join(err, p.link.Close(), p.closeChild())
	}
	p.cmd.Env = append(append(env, prog.env...), pb.EnvKind+"="+string(kind), pb.EnvChannel+"=3")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p, nil
}

// socketPair connects this process (first) with a child (second). No child inherits
// the first, so that it is closed when this process ends.
func socketPair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, child := os.NewFile(uintptr(fds[0]), "plugin"), os.NewFile(uintptr(fds[1]), "host")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, child.Close())
	}
	return conn.(*net.UnixConn), child, nil
}

// Start implements runner.Runner.
func (p *process) Start(context.Context) error {
	stdout, stderr := new(pipe), new(pipe)
	if err := errors.Join(stdout.open(), stderr.open()); err != nil {
		stdout.close()
		stderr.close()
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = stdout.w, stderr.w
	keepDescriptors()
	err := p.cmd.Start()
	_ = p.closeChild()
	_, _ = stdout.w.Close(), stderr.w.Close()
	if err != nil {
		_, _ = stdout.r.Close(), stderr.r.Close()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = p.cmd.Process.Pid
	if p.doomed {
		p.signalGroup()
	}
	go p.wait(stdout, stderr)
	return nil
}

// closeChild closes our copies of the child's descriptors.
func (p *process) closeChild() error {
	err := p.child.Close()
	for _, f := range p.passed {
		err = errors.Join(err, f.Close())
	}
	return err
}

type pipe struct{ r, w *os.File }

func (p *pipe) open() (err error) {
	p.r, p.w, err = os.Pipe()
	return err
}

func (p *pipe) close() {
	if p.r != nil {
		_, _ = p.r.Close(), p.w.Close()
	}
}

// wait reads the output of the process and waits for its end.
func (p *process) wait(stdout, stderr *pipe) {
	var readers sync.WaitGroup
	readers.Go(func() {
		p.out.Read(stdout.r, p.takeHandshake)
		close(p.silent)
		_ = p.handshakeW.Close()
	})
	readers.Go(func() { p.out.Read(stderr.r, nil) })
	err := p.cmd.Wait()
	p.status = "exit status 0"
	if err != nil {
		p.status = err.Error()
	}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signal() == syscall.SIGKILL && !p.wasKilled() {
		p.status += p.starved()
	}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.signaled = ws.Signaled()
	}
	p.mu.Lock()
	p.signalGroup() // kills what it left behind; while any of it runs, the group's id is not reused
	close(p.dead)
	p.mu.Unlock()
	// A grandchild outside the group may hold the pipes open for ever.
	late := time.Now().Add(100 * time.Millisecond)
	_, _ = stdout.r.SetReadDeadline(late), stderr.r.SetReadDeadline(late)
	readers.Wait()
	_, _ = stdout.r.Close(), stderr.r.Close()
	close(p.drained)
}

// starved returns a note if the kernel killed a process for lack of memory while this one
// ran.
func (p *process) starved() string {
	if why := cgroup.Evidence(p.oom, p.cmd.ProcessState); why != "" {
		return ": " + why
	}
	return ""
}

// takeHandshake passes only the handshake line to go-plugin, and nothing else that
// the process prints to standard output: so a plugin whose packages print during
// initialisation still starts.
func (p *process) takeHandshake(line []byte) bool {
	if p.version != 0 {
		return false
	}
	version, ok := handshakeVersion(string(line))
	if !ok {
		return false
	}
	p.version = version
	_, _ = fmt.Fprintf(p.handshakeW, "%s\n", line)
	_ = p.handshakeW.Close()
	return true
}

// handshakeVersion parses "1|VERSION|network|address|protocol|certificate".
func handshakeVersion(line string) (int, bool) {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 5 || f[0] != "1" {
		return 0, false
	}
	v, err := strconv.Atoi(f[1])
	return v, err == nil && v > 0
}

// known reports whether the program is a plugin for this trainctl: it is this
// program, or its handshake has this version.
func (p *process) known() bool { return p.builtin || p.version == pb.ProtocolVersion }

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// killGroup kills the process and everything it started in its group. After the
// process has ended it does nothing: the id may have been reused.
func (p *process) killGroup() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isDead() {
		p.doomed = true
		p.signalGroup()
	}
}

// wasKilled reports whether the process ended because we killed it.
func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doomed
}

func (p *process) signalGroup() {
	if p.id > 0 {
		_ = unix.Kill(-p.id, unix.SIGKILL)
	}
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// abort records why the process can no longer be used and kills it. The first
// cause is kept. A process that hangs first gets SIGQUIT: Go's runtime then prints
// the stacks of all goroutines, any other process ends.
func (p *process) abort(cause error) {
	if p.retire(cause) && errors.Is(cause, ErrHung) && p.pid() != 0 {
		_ = unix.Kill(p.pid(), unix.SIGQUIT)
		p.endsWithin(lastStack)
	}
	p.killGroup()
}

// lastStack is how long a process that hangs may take to print its stacks.
const lastStack = time.Second

// retire makes all calls fail from now on, and reports whether it was the first to do so.
func (p *process) retire(cause error) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if first = p.cause == nil && !p.isDead(); first {
		p.cause = cause
	}
	return first
}

// failure returns nil while the process can be used.
func (p *process) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil && p.isDead() {
		p.cause = fmt.Errorf("%w: %s", ErrDied, p.status)
	}
	return p.cause
}

// endsWithin waits a moment for the process to end.
func (p *process) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.dead:
		return true
	case <-t.C:
		return false
	}
}

// closeError returns how a process ended that was told to close.
func (p *process) closeError(patience time.Duration) error {
	if p.wasKilled() || !p.isDead() {
		return fmt.Errorf("%w: it did not close within %v", ErrHung, patience)
	}
	return fmt.Errorf("%w: %s", ErrDied, p.status)
}

// lastLines waits for the last lines of a dead process.
func (p *process) lastLines() []string {
	if p.isDead() {
		<-p.drained
	}
	return p.out.Last()
}

// The rest of runner.Runner.

// Wait implements runner.Runner.
func (p *process) Wait(context.Context) error { <-p.dead; return nil }

// How long a process may take to end by itself, which gives a better message than
// our signal. A process that closed its output is probably ending, which may take
// long on a busy machine.
const (
	lastMoment  = 50 * time.Millisecond
	silentDeath = time.Second
)

// endsSoon waits for a process that may be ending.
func (p *process) endsSoon() bool {
	select {
	case <-p.silent:
		return p.endsWithin(silentDeath)
	default:
		return p.endsWithin(lastMoment)
	}
}

// Kill implements runner.Runner.
func (p *process) Kill(context.Context) error {
	if !p.endsSoon() {
		p.killGroup()
	}
	return nil
}

// Stdout implements runner.Runner.
func (p *process) Stdout() io.ReadCloser { return p.handshake }

// Stderr implements runner.Runner; this package reads it itself.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (p *process) Name() string { return p.name }

// ID implements runner.Runner; go-plugin tidies up only if it is not empty.
func (p *process) ID() string { return strconv.Itoa(p.pid()) }

// Diagnose implements runner.Runner.
func (p *process) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner.
func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin implements runner.Runner.
func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
