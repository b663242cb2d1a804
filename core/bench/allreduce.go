package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// AllReduce measures every size of s and calls each with every result as it arrives.
// It returns when all ranks have ended; when one fails, or ctx ends, the others are
// killed. A peer of p is measured after it, on the same hosts; one that cannot run
// here returns [ErrSkipped]. A backend that can run in the ranks' processes is
// measured both there and in its own process, unless its options select one.
func AllReduce(ctx context.Context, p Program, s Spec, each func(Result) error) (err error) {
	if err := s.Check(); err != nil {
		return err
	}
	info, err := host.New(host.Options{Builtins: p.Builtins, Exe: p.Exe}).Describe(ctx, sdk.KindBackend, s.Backend)
	if err != nil {
		return err
	}
	if _, err := s.checked(info); err != nil {
		return err
	}
	limits, err := limits(&s)
	if err != nil {
		return err
	}
	hosts, err := hostsFor(&s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hosts.Close()) }()
	for _, s := range placements(info, s) {
		n := 0
		err = measure(ctx, p, &s, hosts, func(r Result) error {
			if n < len(limits) {
				r.Limit = micros(limits[n])
			}
			n++
			return each(r)
		})
		if err != nil {
			return err
		}
	}
	if len(p.Peer) == 0 {
		return nil
	}
	return measure(ctx, Program{Exe: p.Peer[0], Args: p.Peer[1:], foreign: true}, &s, hosts, each)
}

// measure runs the ranks of one job and passes on what rank 0 writes.
func measure(ctx context.Context, p Program, s *Spec, hosts *Hosts, each func(Result) error) error {
	j, err := newJob(ctx, p, s, hosts)
	if err != nil {
		return err
	}
	return j.run(func(line []byte) error {
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("rank 0 wrote %q: %w", line, err)
		}
		return each(r)
	})
}

// hostsFor creates the requested hosts.
func hostsFor(s *Spec) (*Hosts, error) {
	if s.Hosts == 0 {
		return &Hosts{}, nil
	}
	return NewHosts(s.Hosts)
}

// limits measures the machine before the ranks use it.
func limits(s *Spec) (out []time.Duration, err error) {
	if s.Hosts > 0 || s.World > runtime.NumCPU() {
		return nil, nil // threads that wait by spinning need a core each
	}
	for _, size := range s.Sizes {
		d, err := inPlace(s.World, size, s.DType, s.Budget/4)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// job is a store and the ranks that meet there.
type job struct {
	ctx      context.Context
	stop     context.CancelFunc
	store    *rank.Server // nil: rank 0 has it
	lifeline *os.File     // its end here; ranks end when it is closed
	far      *os.File
	key      secret.Secret
	ranks    []*member

	mu     sync.Mutex
	failed error // the first
}

type member struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// start passes the job's secret to the ranks as descriptor 4.
func (m *member) start(key secret.Secret) error {
	f, err := key.Pipe()
	if err != nil {
		return err
	}
	defer f.Close()
	m.cmd.ExtraFiles = append(m.cmd.ExtraFiles, f)
	return m.cmd.Start()
}

func newJob(ctx context.Context, p Program, s *Spec, hosts *Hosts) (*job, error) {
	far, near, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	j := &job{lifeline: near, far: far, key: secret.New()}
	w := rank.World{Size: s.World, LocalSize: s.World, Nodes: 1, MasterAddr: "127.0.0.1", RunID: fmt.Sprintf("bench-%d", os.Getpid())}
	settings := rank.WorkerSettings{Threads: max(1, cgroup.Cores()/s.World), Inherited: os.LookupEnv}
	switch {
	case hosts.Len() > 0: // no address of this process leads into them: rank 0 has the store
		w.Nodes, w.LocalSize, w.MasterAddr, w.MasterPort = hosts.Len(), s.World/hosts.Len(), hosts.Addr(0), masterPort
	case p.foreign: // as with torchrun's static rendezvous, rank 0 has a store of its own kind
		if w.MasterPort, err = freePort(); err != nil {
			return nil, errors.Join(err, far.Close(), near.Close())
		}
	default:
		j.store, err = rank.ListenStore("127.0.0.1:0", rank.StoreOptions{RunID: w.RunID, Secret: j.key, WorldSize: s.World})
		if err != nil {
			return nil, errors.Join(err, far.Close(), near.Close())
		}
		settings.Store, w.MasterPort = j.store.Addr().String(), j.store.Addr().Port
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	j.ctx, j.stop = context.WithCancel(ctx)
	for r := range s.World {
		w.Rank, w.NodeRank, w.LocalRank = r, r/w.LocalSize, r%w.LocalSize
		m := &member{cmd: exec.CommandContext(j.ctx, p.Exe, p.Args...)}
		if hosts.Len() > 0 {
			m.cmd = hosts.Command(j.ctx, w.NodeRank, p.Exe, p.Args...)
		}
		m.cmd.Env = append(append(os.Environ(), rank.WorkerEnv(w, settings)...), envSpec+"="+string(spec),
			launch.EnvLifelineFD+"=3", secret.EnvFD+"=4", envDevice+"="+hosts.device())
		m.cmd.ExtraFiles = []*os.File{far}
		m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		m.cmd.Stderr = &m.stderr
		j.ranks = append(j.ranks, m)
	}
	return j, nil
}

// masterPort is arbitrary: no other process listens in our namespaces.
const masterPort = 29500

// freePort returns a port that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// close ends what the job has opened.
func (j *job) close() error {
	err := j.lifeline.Close()
	if j.store != nil {
		err = errors.Join(err, j.store.Close())
	}
	return err
}

// run starts the ranks, hands rank 0's lines to line, and waits for all.
func (j *job) run(line func([]byte) error) error {
	defer j.close()
	defer j.stop()
	out, err := j.ranks[0].cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for r, m := range j.ranks {
		if err := m.start(j.key); err != nil {
			j.fail(fmt.Errorf("rank %d: %w", r, err))
			break
		}
		running.Go(func() {
			if r == 0 {
				j.read(out, line)
			}
			if err := m.cmd.Wait(); err != nil {
				j.fail(m.exitError(r, err))
			}
		})
	}
	j.far.Close()
	running.Wait()
	return j.failed
}

func (j *job) read(out io.Reader, line func([]byte) error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			j.fail(err)
		}
	}
}

// fail keeps the first cause and ends the ranks.
func (j *job) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = err
	}
	j.stop()
}

// statusSkipped is the exit status of a peer that lacks something on this machine.
const statusSkipped = 77

// ErrSkipped is wrapped with a peer's message.
var ErrSkipped = errors.New("skipped")

func (m *member) exitError(rank int, err error) error {
	text := strings.TrimSpace(m.stderr.String())
	if m.cmd.ProcessState.ExitCode() == statusSkipped {
		return fmt.Errorf("%w: %s", ErrSkipped, text)
	}
	if text == "" {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	return fmt.Errorf("rank %d: %w\n%s", rank, err, text)
}
