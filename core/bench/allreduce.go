package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/launch"
	"github.com/trainctl/trainctl/core/rank"
	"github.com/trainctl/trainctl/core/sdk"
)

// AllReduce measures every size of s and calls each with its result, as it
// comes. It returns when all ranks have ended; when one fails, or ctx ends,
// the others are killed.
func AllReduce(ctx context.Context, p Program, s Spec, each func(Result) error) error {
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
	j, err := newJob(ctx, p, &s)
	if err != nil {
		return err
	}
	n := 0
	return j.run(func(line []byte) error {
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("rank 0 wrote %q: %w", line, err)
		}
		if n < len(limits) {
			r.Limit = micros(limits[n])
		}
		n++
		return each(r)
	})
}

// limits measures the machine before the ranks use it.
func limits(s *Spec) (out []time.Duration, err error) {
	if s.World > runtime.NumCPU() {
		return nil, nil // threads that meet by spinning need a core each
	}
	for _, size := range s.Sizes {
		d, err := InPlace(s.World, size, s.DType, s.Budget/4)
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
	store    *rank.Server
	lifeline *os.File // its end here; ranks end when it is closed
	far      *os.File
	ranks    []*member

	mu     sync.Mutex
	failed error // the first
}

type member struct {
	cmd    *exec.Cmd
	out    io.ReadCloser // of rank 0
	stderr bytes.Buffer
}

func newJob(ctx context.Context, p Program, s *Spec) (*job, error) {
	id := fmt.Sprintf("bench-%d", os.Getpid())
	secret := rank.NewSecret()
	store, err := rank.ListenStore("127.0.0.1:0", rank.StoreOptions{RunID: id, Secret: secret, WorldSize: s.World})
	if err != nil {
		return nil, err
	}
	far, near, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	j := &job{store: store, lifeline: near, far: far}
	j.ctx, j.stop = context.WithCancel(ctx)
	for r := range s.World {
		w := rank.World{Rank: r, Size: s.World, LocalRank: r, LocalSize: s.World, Nodes: 1,
			MasterAddr: "127.0.0.1", MasterPort: store.Addr().Port, RunID: id}
		env := rank.WorkerEnv(w, rank.WorkerSettings{Store: store.Addr().String(), Secret: secret,
			Threads: max(1, runtime.NumCPU()/s.World), Inherited: os.LookupEnv})
		m := &member{cmd: exec.CommandContext(j.ctx, p.Exe, p.Args...)}
		m.cmd.Env = append(append(os.Environ(), env...), envSpec+"="+string(spec), launch.EnvLifelineFD+"=3")
		m.cmd.ExtraFiles = []*os.File{far}
		m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		m.cmd.Stderr = &m.stderr
		j.ranks = append(j.ranks, m)
	}
	return j, nil
}

// run starts the ranks, hands rank 0's lines to line, and waits for all.
func (j *job) run(line func([]byte) error) error {
	defer j.store.Close()
	defer j.lifeline.Close()
	defer j.stop()
	out, err := j.ranks[0].cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for r, m := range j.ranks {
		if err := m.cmd.Start(); err != nil {
			j.fail(fmt.Errorf("rank %d: %w", r, err))
			break
		}
		running.Go(func() {
			if r == 0 {
				j.read(out, line)
			}
			if err := m.cmd.Wait(); err != nil {
				j.fail(m.obituary(r, err))
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

func (m *member) obituary(rank int, err error) error {
	text := strings.TrimSpace(m.stderr.String())
	if text == "" {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	return fmt.Errorf("rank %d: %w\n%s", rank, err, text)
}
