//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/e2e/rig"
)

// Ranks that another launcher starts train the same bits as trainctl run's, and
// leave the same files.
func TestWorkersUnderTorchrunsContract(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t).Expect(t, 0)
	port := rig.FreePort(t)
	other := p.StartRank(t, 1, 2, port)
	p.StartRank(t, 0, 2, port).Wait(t).Expect(t, 0).Prints(t, "ok after 8 steps")
	if r := other.Wait(t).Expect(t, 0); r.Stderr != "" || r.Stdout != "" {
		t.Errorf("rank 1 has something to say:\n%s%s", r.Stdout, r.Stderr)
	}
	rig.SameParams(t, p.Summary(t, 1), p.Summary(t, 2))
	for _, file := range []string{"config.toml", "logs/rank-1.log", "flight/rank-0.0.flight", "flight/rank-1.0.flight"} {
		rig.Must(t, exists(filepath.Join(p.RunDir(2), file)))
	}
	if log := p.RankLog(t, 2, 0); !strings.Contains(log, "epoch 1/2  step 1/8") || !strings.Contains(log, "ok after 8 steps") {
		t.Errorf("the log of rank 0:\n%s", log)
	}
}

// On a host that does not see rank 0's files a worker leaves its own, and says
// how the job ended.
func TestWorkersOnTwoFileSystems(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Env = []string{"TRAINCTL_JOB_SECRET=" + rig.JobSecret, "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=2"}
	port := rig.FreePort(t)
	other := p.RankCommand(1, 2, port, "--run-dir", "elsewhere")
	other.Cmd.Env = append(other.Cmd.Env, append(p.Env, "GROUP_RANK=1")...)
	other.Start(t)
	first := p.RankCommand(0, 2, port)
	first.Cmd.Env = append(first.Cmd.Env, p.Env...)
	first.Start(t).Wait(t).Expect(t, 0)
	other.Wait(t).Expect(t, 0).Prints(t, "ok: the job succeeded; rank 0's results are in "+p.RunDir(1)+" on ")
	for _, file := range []string{"config.toml", "logs/rank-1.log", "flight/rank-1.0.flight"} {
		rig.Must(t, exists(filepath.Join(p.Dir, "elsewhere/job/1", file)))
	}
}

// A worker that diverges says so in its files, as under run.
func TestWorkerThatDiverges(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	report := filepath.Join(p.Dir, "error.json")
	r := p.RankCommand(0, 1, rig.FreePort(t), rig.Set("optimizer.lr=1e20", "optimizer.weight_decay=1", "train.epochs=50", "train.max_skips=6", "checkpoint.every=1 steps")...)
	r.Cmd.Env = append(r.Cmd.Env, "TORCHELASTIC_ERROR_FILE="+report)
	r.Start(t).Wait(t).Expect(t, 1).Prints(t, "error: diverged at step 3", "--resume auto continues from the newest good checkpoint: step ")
	if s := p.Summary(t, 1); s.Status != "diverged" || s.WorldSize != 1 || len(s.Plugins) != 3 {
		t.Errorf("summary: %+v", s)
	}
	if log := p.RankLog(t, 1, 0); !strings.Contains(log, "error: diverged at step 3") {
		t.Errorf("the log of rank 0:\n%s", log)
	}
	var told struct{ Message string }
	b, err := os.ReadFile(report)
	rig.Must(t, err)
	if rig.Must(t, json.Unmarshal(b, &told)); !strings.HasPrefix(told.Message, "diverged at step 3") {
		t.Errorf("torchrun is told %s", b)
	}
}

func TestRankThatNeverArrives(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.StartRank(t, 0, 2, rig.FreePort(t), rig.Set(`backend.init_timeout="2s"`)...).Wait(t).Expect(t, 4).Soon(t).Prints(t, "rank 1")
}

// The flags of run have the same effect for worker: it continues from the newest run of
// the name, and writes events and progress as configured.
func TestWorkerFlagsUnderTorchrunsContract(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t, rig.Set("train.epochs=1")...).Expect(t, 0)
	port := rig.FreePort(t)
	flags := []string{"--resume", "auto", "--events", "json", "--progress", "none"}
	other := p.StartRank(t, 1, 2, port, flags...)
	r := p.StartRank(t, 0, 2, port, flags...).Wait(t).Expect(t, 0)
	other.Wait(t).Expect(t, 0)
	if !strings.Contains(r.Stdout, `"event":"checkpoint_loaded","step":4`) || !strings.Contains(r.Stdout, `"event":"run_done"`) || strings.Contains(r.Stderr, "epoch") {
		t.Errorf("standard output:\n%s\nstandard error:\n%s", r.Stdout, r.Stderr)
	}
	rig.Must(t, exists(filepath.Join(p.RunDir(2), "config.toml")))
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// Without a launcher it is the ranks that notice a death.
func TestPeerDiesUnderTorchrunsContract(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	port := rig.FreePort(t)
	first := p.StartRank(t, 0, 2, port, rig.Endless()...)
	second := p.StartRank(t, 1, 2, port, rig.Endless()...)
	p.WaitForSteps(t, first, 1, 3)
	rig.Signal(t, second.Cmd.Process.Pid, syscall.SIGSEGV)
	second.Wait(t)
	first.Wait(t).Expect(t, 7).Prints(t, "rank 1", "closed the connection")
	if log := p.RankLog(t, 1, 1); !strings.Contains(log, "SIGSEGV: segmentation violation") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the log of the rank that died:\n%s", log)
	}
	if s := p.Summary(t, 1); s.Status != "failed" || s.Steps < 3 {
		t.Errorf("summary: %+v", s)
	}
}

func TestTwoWriters(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	first := p.StartEndless(t, `checkpoint.every="1000000 steps"`)
	second := p.Command("worker", p.Config)
	second.Cmd.Env = append(second.Cmd.Env, "TRAINCTL_RUN_DIR="+p.RunDir(1), "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1")
	second.Start(t).Wait(t).Expect(t, 2).Prints(t, "checkpoints", fmt.Sprint(p.Worker(t, 0).PID))
	rig.Signal(t, first.Cmd.Process.Pid, syscall.SIGTERM)
	first.Wait(t).Expect(t, 75)
}

func TestThreeRanks(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.Train(t, "--nproc-per-node", "3").Expect(t, 0)
	s := p.Summary(t, 1)
	if len(s.ParamsSHA256) != 3 || s.ParamsSHA256[0] != s.ParamsSHA256[2] || s.WorldSize != 3 {
		t.Errorf("summary %+v", s)
	}
}

// A socket's name has little room, and some systems' temporary directories
// have long names.
func TestLongTemporaryDirectory(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	long := filepath.Join(p.Tmp, strings.Repeat("long", 30))
	rig.Must(t, os.Mkdir(long, 0o755))
	p.Env = []string{"TMPDIR=" + long}
	p.Train(t).Expect(t, 0)
	rig.Must(t, os.Remove(long)) // it is empty
}

// A user without rights, and without a home that can be written.
func TestUnprivilegedUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a process as somebody else")
	}
	p := rig.NewPlace(t)
	runs := filepath.Join(p.Dir, "open")
	rig.Must(t, os.Mkdir(runs, 0o777))
	for _, dir := range []string{runs, p.Tmp} {
		rig.Must(t, os.Chmod(dir, 0o777))
	}
	for dir := p.Dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		rig.Must(t, os.Chmod(dir, 0o755))
	}
	r := p.Command("run", p.Config, "--run-dir", runs)
	r.Cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	r.Cmd.Env = append(r.Cmd.Env, "HOME=/")
	r.Start(t).Wait(t).Expect(t, 0).Prints(t, "ok after 8 steps")

	denied := p.Command("run", p.Config) // to a directory that is root's
	denied.Cmd.SysProcAttr.Credential = r.Cmd.SysProcAttr.Credential
	denied.Start(t).Wait(t).Expect(t, 1).Prints(t, "permission denied", "--run-dir")
}

// A host in a new network namespace has not even a loopback interface.
func TestWithoutNetwork(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	p := rig.NewPlace(t)
	r := p.Command("run", p.Config)
	r.Cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	r.Began = time.Now()
	if err := r.Cmd.Start(); err != nil {
		t.Skip("a network namespace cannot be made here: ", err)
	}
	r.Wait(t).Expect(t, 1).Soon(t).Prints(t, "cannot reach each other", "ip link set lo up")
}

// Plugins of a worker that another launcher started compute on its share of the
// cores, as those under run do.
func TestPluginsOfAWorkerFollowItsShare(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	port := rig.FreePort(t)
	args := rig.Endless("launch.threads_per_rank=1")
	r := []*rig.Proc{p.StartRank(t, 0, 2, port, args...), p.StartRank(t, 1, 2, port, args...)}
	for _, kind := range []string{"backend", "dataset"} {
		q := p.PluginOf(t, kind, 0)
		if !q.HasEnv("GOMAXPROCS=1") {
			t.Errorf("%s plugin: %q", kind, q.Env)
		}
	}
	for _, w := range r {
		rig.Signal(t, w.Cmd.Process.Pid, syscall.SIGKILL)
		w.Wait(t)
	}
}
