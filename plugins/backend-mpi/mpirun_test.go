package mpi

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// The test binary serves its own plugin, as trainctl does.
var builtins = []host.Builtin{
	{Kind: sdk.KindBackend, Name: "mpi", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return New() }}, Env: Variables(), StopTimeout: StopTimeout},
	{Kind: sdk.KindBackend, Name: "segments", StopTimeout: StopTimeout, Plugin: sdk.Plugin{Backend: func() sdk.Backend {
		b := New()
		b.segment = 4096
		return b
	}}},
}

func TestMain(m *testing.M) {
	host.ServeBuiltin(builtins, os.Args[1:])
	os.Exit(m.Run())
}

// mpirun is an implementation's launcher.
type mpirun struct {
	name    string
	program string
	args    []string
	env     []string
	rank    []string // variables with a process's rank
}

var mpiruns = []mpirun{
	{
		name: "Open MPI", program: "mpirun.openmpi",
		args: []string{"--bind-to", "none", "--oversubscribe"},
		env:  []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
		rank: []string{"OMPI_COMM_WORLD_RANK"},
	},
	// With a port instead of an inherited descriptor, any process can be the rank.
	{name: "MPICH", program: "mpirun.mpich", args: []string{"-pmi-port"}, rank: []string{"PMI_RANK", "PMI_ID"}},
}

func (m *mpirun) need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath(m.program); err != nil {
		t.Skipf("%s of %s is not installed", m.program, m.name)
	}
}

// newProcess makes a function that starts a plugin process with more environment.
func newProcess(plugin string, env []string) func(testing.TB) sdk.Backend {
	return sdktest.BackendProcess(host.New(host.Options{Builtins: builtins, SetEnv: env}), plugin)
}

// start starts the plugin processes of a group, each with the environment of one process
// of an mpirun.
func (m *mpirun) start(t testing.TB, world int) []sdk.Backend { return m.startWith(t, "mpi", world) }

// startSegments is start with the inline data plane and small segments.
func (m *mpirun) startSegments(t testing.TB, world int) []sdk.Backend {
	return m.startWith(t, "segments", world, pb.EnvDataPlane+"="+pb.PlaneInline)
}

func (m *mpirun) startWith(t testing.TB, plugin string, world int, more ...string) []sdk.Backend {
	t.Helper()
	backends := make([]sdk.Backend, world)
	for rank, env := range m.environments(t, world) {
		backends[rank] = newProcess(plugin, append(env, more...))(t)
	}
	return backends
}

// holder writes its environment to a file, reports the file, and lasts until the test ends.
const holder = `env -0 > "$0/env.$$" && echo "env.$$" > "$0/ready" && read end < "$0/hold"`

// environments returns the environments of n processes of an mpirun, by rank. They last until
// the test ends.
func (m *mpirun) environments(t testing.TB, n int) [][]string {
	t.Helper()
	dir := t.TempDir()
	ready, hold := fifo(t, dir, "ready"), fifo(t, dir, "hold")
	args := slices.Concat(m.args, []string{"-n", strconv.Itoa(n), "sh", "-c", holder, dir})
	cmd := exec.Command(m.program, args...)
	session, err := os.MkdirTemp("", "mpi") // a short path, for sockets in it; Open MPI's own folder is removed by whichever mpirun ends last
	must(t, err)
	cmd.Env = append(append(os.Environ(), m.env...), "TMPDIR="+session)
	out, err := os.Create(filepath.Join(dir, "output"))
	must(t, err)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a rank that ended without MPI_Finalize makes it fail
		_ = ready.SetReadDeadline(time.Now())
		close(ended)
	}()
	t.Cleanup(func() {
		_ = hold.Close()
		m.end(t, cmd, ended)
		_ = out.Close()
		_ = os.RemoveAll(session)
		if text, err := os.ReadFile(out.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", m.program, text)
		}
	})
	lines := bufio.NewScanner(ready)
	all := make([][]string, n)
	for range n {
		if !lines.Scan() {
			text, _ := os.ReadFile(out.Name())
			t.Fatalf("%s started less than %d processes: %v\n%s", m.program, n, lines.Err(), text)
		}
		text, err := os.ReadFile(filepath.Join(dir, lines.Text()))
		must(t, err)
		env := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		all[m.rankIn(t, env)] = env
	}
	return all
}

// end waits until an mpirun whose processes were told to end has ended. One that does not,
// as was seen on a full disk, is terminated and fails the test.
func (m *mpirun) end(t testing.TB, cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	const patience = 30 * time.Second
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-ended:
			return
		case <-time.After(patience):
			t.Errorf("%s did not end within %v of its processes: sending %v", m.program, patience, signal)
			_ = syscall.Kill(-cmd.Process.Pid, signal)
		}
	}
	<-ended
}

func (m *mpirun) rankIn(t testing.TB, env []string) int {
	t.Helper()
	for _, name := range m.rank {
		for _, kv := range env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				rank, err := strconv.Atoi(value)
				must(t, err)
				return rank
			}
		}
	}
	t.Fatalf("%s sets none of %v: %s", m.program, m.rank, fmt.Sprint(env))
	return 0
}

// fifo makes a pipe in the file system and opens it for both directions, so that opening
// waits for nobody.
func fifo(t testing.TB, dir, name string) *os.File {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, unix.Mkfifo(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
