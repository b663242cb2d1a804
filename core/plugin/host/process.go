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
	"github.com/trainctl/trainctl/core/base/pipe"
	"github.com/trainctl/trainctl/core/plugin/output"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// process is the process of one plugin. It implements go-plugin's runner interface,
// because go-plugin's runner notices a death only after every grandchild has closed the
// pipes, and kills one process instead of the group.
type process struct {
	kind   sdk.Kind
	name   string
	origin origin
	out    *output.Lines
	link   *net.UnixConn // our end of the plugin's descriptor 3, or of the connection that attached it

	handshake  io.ReadCloser // what go-plugin reads
	handshakeW *io.PipeWriter
	version    int    // the protocol version of the handshake, 0 = none came
	socketDir  string // created by go-plugin for only this process

	dead    chan struct{} // closed when the process has ended
	silent  chan struct{} // closed when its standard output is
	drained chan struct{} // closed when its last lines have been read
	status  string        // how it ended; valid after dead

	signaled bool // a signal ended it; valid after dead
	builtin  bool // served by this program

	mu     sync.Mutex
	cause  error // why it can no longer be used
	doomed bool  // we killed it, perhaps before it was started
}

// origin is where a process comes from: this process has started it, or a person has.
type origin interface {
	setEnv(env ...string) // before start
	start() error         // closes the process's channels when it has ended
	pid() int             // 0 before start
	kill()                // ends our use of it at once; process.mu is held
	stacks()              // asks for the stacks of a process that hangs
	release() error       // closes what start has not used
}

func makeProcess(kind sdk.Kind, name string, out *output.Lines) *process {
	p := &process{kind: kind, name: name, out: out, dead: make(chan struct{}), silent: make(chan struct{}), drained: make(chan struct{})}
	p.handshake, p.handshakeW = io.Pipe()
	return p
}

// child is a process that this one has started, in its own process group.
type child struct {
	p      *process
	cmd    *exec.Cmd
	exec   func(*exec.Cmd) error
	end    *os.File   // the plugin's descriptor 3, until it is started
	passed []*os.File // our copies of descriptors of the launcher, until it is started
	oom    int        // count of the kernel's out-of-memory kills before it was started
	id     int        // of the process and its group, 0 until started; under p.mu
}

// newChild prepares the process of a program; Start starts it.
func (h *Host) newChild(kind sdk.Kind, name string, prog *program, out *output.Lines) (*process, error) {
	p := makeProcess(kind, name, out)
	c := &child{p: p, cmd: exec.Command(prog.path, prog.args...), exec: h.opts.Start, oom: cgroup.OOMKills()}
	p.origin, p.builtin = c, prog.builtin != nil
	env, err := h.environment(name, prog.builtin), error(nil)
	if p.link, c.end, err = socketPair(); err != nil {
		return nil, err
	}
	c.cmd.ExtraFiles = []*os.File{c.end}
	if prog.file != nil {
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, prog.file)
		if !prog.within {
			c.cmd.Path = executablePath(prog)
		}
	}
	if err := c.passDescriptors(env); err != nil {
		return nil, errors.Join(err, p.link.Close(), c.release())
	}
	c.cmd.Env = append(append(env, prog.env...), pb.EnvKind+"="+string(kind), pb.EnvChannel+"=3")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
func (p *process) Start(context.Context) error { return p.origin.start() }

func (c *child) setEnv(env ...string) { c.cmd.Env = append(c.cmd.Env, env...) }

func (c *child) start() error {
	stdout, stderr := new(ends), new(ends)
	if err := errors.Join(stdout.open(), stderr.open()); err != nil {
		stdout.close()
		stderr.close()
		return err
	}
	c.cmd.Stdout, c.cmd.Stderr = stdout.w, stderr.w
	keepDescriptors()
	err := c.exec(c.cmd)
	_ = c.release()
	_, _ = stdout.w.Close(), stderr.w.Close()
	if err != nil {
		_, _ = stdout.r.Close(), stderr.r.Close()
		return err
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.id = c.cmd.Process.Pid
	if c.p.doomed {
		c.kill()
	}
	go c.wait(stdout, stderr)
	return nil
}

// release closes our copies of the child's descriptors.
func (c *child) release() error {
	err := c.end.Close()
	for _, f := range c.passed {
		err = errors.Join(err, f.Close())
	}
	return err
}

// ends are both ends of a pipe.
type ends struct{ r, w *os.File }

func (p *ends) open() (err error) {
	p.r, p.w, err = os.Pipe()
	return err
}

func (p *ends) close() {
	if p.r != nil {
		_, _ = p.r.Close(), p.w.Close()
	}
}

// wait reads the output of the process and waits for its end.
func (c *child) wait(stdout, stderr *ends) {
	p := c.p
	var readers sync.WaitGroup
	readers.Go(func() {
		p.out.Read(&pipe.Reader{File: stdout.r}, p.takeHandshake)
		close(p.silent)
		_ = p.handshakeW.Close()
	})
	readers.Go(func() { p.out.Read(&pipe.Reader{File: stderr.r}, nil) })
	err := c.cmd.Wait()
	p.status = "exit status 0"
	if err != nil {
		p.status = err.Error()
	}
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signal() == syscall.SIGKILL && !p.wasKilled() {
		p.status += c.starved()
	}
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		p.signaled = ws.Signaled()
	}
	p.mu.Lock()
	c.kill() // kills what it left behind; while any of it runs, the group's id is not reused
	close(p.dead)
	p.mu.Unlock()
	// A grandchild outside the group may hold the pipes open for ever. What is in them is read.
	late := time.Now().Add(100 * time.Millisecond)
	_, _ = stdout.r.SetReadDeadline(late), stderr.r.SetReadDeadline(late)
	readers.Wait()
	_, _ = stdout.r.Close(), stderr.r.Close()
	close(p.drained)
}

// starved returns a note if the kernel killed a process for lack of memory while this one
// ran.
func (c *child) starved() string {
	if why := cgroup.Evidence(c.oom, c.cmd.ProcessState); why != "" {
		return ": " + why
	}
	return ""
}

func (c *child) pid() int {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.id
}

// kill kills the process and everything it started in its group.
func (c *child) kill() {
	if c.id > 0 {
		_ = unix.Kill(-c.id, unix.SIGKILL)
	}
}

// stacks sends SIGQUIT: Go's runtime then prints the stacks of all goroutines, any other
// process ends.
func (c *child) stacks() {
	if pid := c.pid(); pid != 0 {
		_ = unix.Kill(pid, unix.SIGQUIT)
		c.p.endsWithin(lastStack)
	}
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

func (p *process) pid() int { return p.origin.pid() }

// killGroup kills the process and everything it started in its group; one that a person has
// started is left alone and loses only its connection. After the process has ended it does
// nothing: the id may have been reused.
func (p *process) killGroup() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isDead() {
		p.doomed = true
		p.origin.kill()
	}
}

// wasKilled reports whether the process ended because we killed it.
func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doomed
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
// cause is kept. A process that hangs is first asked for its stacks.
func (p *process) abort(cause error) {
	if p.retire(cause) && errors.Is(cause, ErrHung) {
		p.killHung()
	} else {
		p.killGroup()
	}
}

// killHung kills a process that hangs, after it was asked for its stacks.
func (p *process) killHung() {
	if !p.isDead() {
		p.origin.stacks()
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

// closeError returns how a process ended that was told to close; late says that its time was up before.
func (p *process) closeError(late bool, patience time.Duration) error {
	if late || p.wasKilled() {
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
