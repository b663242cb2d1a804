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
)

// Ranks that another launcher starts train the same bits as trainctl run's, and
// leave the same files.
func TestWorkersUnderTorchrunsContract(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t).expect(t, 0)
	port := freePort(t)
	other := p.startRank(t, 1, 2, port)
	p.startRank(t, 0, 2, port).wait(t).expect(t, 0).says(t, "ok after 8 steps")
	if r := other.wait(t).expect(t, 0); r.stderr != "" || r.stdout != "" {
		t.Errorf("rank 1 has something to say:\n%s%s", r.stdout, r.stderr)
	}
	sameParams(t, p.summary(t, 1), p.summary(t, 2))
	for _, file := range []string{"config.toml", "logs/rank-1.log", "flight/rank-0.0.flight", "flight/rank-1.0.flight"} {
		must(t, exists(filepath.Join(p.runDir(2), file)))
	}
	if log := p.rankLog(t, 2, 0); !strings.Contains(log, "epoch 1/2  step 1/8") || !strings.Contains(log, "ok after 8 steps") {
		t.Errorf("the log of rank 0:\n%s", log)
	}
}

// On a host that does not see rank 0's files a worker leaves its own, and says
// how the job ended.
func TestWorkersOnTwoFileSystems(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = []string{"TRAINCTL_JOB_SECRET=" + strings.Repeat("5ec2e7", 11), "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=2"}
	port := freePort(t)
	other := p.rankCommand(1, 2, port, "--run-dir", "elsewhere")
	other.cmd.Env = append(other.cmd.Env, append(p.env, "GROUP_RANK=1")...)
	other.start(t)
	first := p.rankCommand(0, 2, port)
	first.cmd.Env = append(first.cmd.Env, p.env...)
	first.start(t).wait(t).expect(t, 0)
	other.wait(t).expect(t, 0).says(t, "ok: the job succeeded; rank 0's results are in "+p.runDir(1)+" on ")
	for _, file := range []string{"config.toml", "logs/rank-1.log", "flight/rank-1.0.flight"} {
		must(t, exists(filepath.Join(p.dir, "elsewhere/job/1", file)))
	}
}

// A worker that diverges says so in its files, as under run.
func TestWorkerThatDiverges(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	report := filepath.Join(p.dir, "error.json")
	r := p.rankCommand(0, 1, freePort(t), set("optimizer.lr=1e20", "optimizer.weight_decay=1", "train.epochs=50", "train.max_skips=6", "checkpoint.every=1 steps")...)
	r.cmd.Env = append(r.cmd.Env, "TORCHELASTIC_ERROR_FILE="+report)
	r.start(t).wait(t).expect(t, 1).says(t, "error: diverged at step 3", "--resume auto continues from the newest good checkpoint: step ")
	if s := p.summary(t, 1); s.Status != "diverged" || s.WorldSize != 1 || len(s.Plugins) != 3 {
		t.Errorf("summary: %+v", s)
	}
	if log := p.rankLog(t, 1, 0); !strings.Contains(log, "error: diverged at step 3") {
		t.Errorf("the log of rank 0:\n%s", log)
	}
	var told struct{ Message string }
	b, err := os.ReadFile(report)
	must(t, err)
	if must(t, json.Unmarshal(b, &told)); !strings.HasPrefix(told.Message, "diverged at step 3") {
		t.Errorf("torchrun is told %s", b)
	}
}

func TestRankThatNeverArrives(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.startRank(t, 0, 2, freePort(t), set(`backend.init_timeout="2s"`)...).wait(t).expect(t, 4).within(t, 8*time.Second).says(t, "rank 1")
}

// What run's flags do they do for worker too: it goes on from the newest run of
// the name, and writes events and progress as it is asked to.
func TestWorkerFlagsUnderTorchrunsContract(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t, set("train.epochs=1")...).expect(t, 0)
	port := freePort(t)
	flags := []string{"--resume", "auto", "--events", "json", "--progress", "none"}
	other := p.startRank(t, 1, 2, port, flags...)
	r := p.startRank(t, 0, 2, port, flags...).wait(t).expect(t, 0)
	other.wait(t).expect(t, 0)
	if !strings.Contains(r.stdout, `"event":"checkpoint_loaded","step":4`) || !strings.Contains(r.stdout, `"event":"run_done"`) || strings.Contains(r.stderr, "epoch") {
		t.Errorf("standard output:\n%s\nstandard error:\n%s", r.stdout, r.stderr)
	}
	must(t, exists(filepath.Join(p.runDir(2), "config.toml")))
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// Without a launcher it is the ranks that notice a death.
func TestPeerDiesUnderTorchrunsContract(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	port := freePort(t)
	first := p.startRank(t, 0, 2, port, endless()...)
	second := p.startRank(t, 1, 2, port, endless()...)
	p.trained(t, first, 1, 3)
	kill(t, second.cmd.Process.Pid, syscall.SIGSEGV)
	second.wait(t)
	first.wait(t).expect(t, 7).says(t, "rank 1", "closed the connection")
	if log := p.rankLog(t, 1, 1); !strings.Contains(log, "SIGSEGV: segmentation violation") || !strings.Contains(log, "goroutine ") {
		t.Errorf("the log of the rank that died:\n%s", log)
	}
	if s := p.summary(t, 1); s.Status != "failed" || s.Steps < 3 {
		t.Errorf("summary: %+v", s)
	}
}

func TestTwoWriters(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.underWay(t, `checkpoint.every="1000000 steps"`)
	second := p.command("worker", p.config)
	second.cmd.Env = append(second.cmd.Env, "TRAINCTL_RUN_DIR="+p.runDir(1), "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1")
	second.start(t).wait(t).expect(t, 2).says(t, "checkpoints", fmt.Sprint(p.worker(t, 0).pid))
	kill(t, first.cmd.Process.Pid, syscall.SIGTERM)
	first.wait(t).expect(t, 75)
}

func TestThreeRanks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.train(t, "--nproc-per-node", "3").expect(t, 0)
	s := p.summary(t, 1)
	if len(s.ParamsSHA256) != 3 || s.ParamsSHA256[0] != s.ParamsSHA256[2] || s.WorldSize != 3 {
		t.Errorf("summary %+v", s)
	}
}

// A socket's name has little room, and some systems' temporary directories
// have long names.
func TestLongTemporaryDirectory(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	long := filepath.Join(p.tmp, strings.Repeat("long", 30))
	must(t, os.Mkdir(long, 0o755))
	p.env = []string{"TMPDIR=" + long}
	p.train(t).expect(t, 0)
	must(t, os.Remove(long)) // it is empty
}

// A user without rights, and without a home that can be written.
func TestUnprivilegedUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a process as somebody else")
	}
	p := newPlace(t)
	runs := filepath.Join(p.dir, "open")
	must(t, os.Mkdir(runs, 0o777))
	for _, dir := range []string{runs, p.tmp} {
		must(t, os.Chmod(dir, 0o777))
	}
	for dir := p.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	r := p.command("run", p.config, "--run-dir", runs)
	r.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	r.cmd.Env = append(r.cmd.Env, "HOME=/")
	r.start(t).wait(t).expect(t, 0).says(t, "ok after 8 steps")

	denied := p.command("run", p.config) // to a directory that is root's
	denied.cmd.SysProcAttr.Credential = r.cmd.SysProcAttr.Credential
	denied.start(t).wait(t).expect(t, 1).says(t, "permission denied", "--run-dir")
}

// In a network of its own a host has not even a loopback interface.
func TestWithoutNetwork(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a network namespace")
	}
	p := newPlace(t)
	r := p.command("run", p.config)
	r.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	r.began = time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Skip("a network namespace cannot be made here: ", err)
	}
	r.wait(t).expect(t, 1).within(t, 10*time.Second).says(t, "cannot reach each other", "ip link set lo up")
}

// Plugins of a worker that somebody else launched compute on its share of the
// cores, as those under run do.
func TestPluginsOfAWorkerFollowItsShare(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	port := freePort(t)
	args := endless("launch.threads_per_rank=1")
	r := []*proc{p.startRank(t, 0, 2, port, args...), p.startRank(t, 1, 2, port, args...)}
	for _, kind := range []string{"backend", "dataset"} {
		q := p.pluginOf(t, kind, 0)
		if !q.has("GOMAXPROCS=1") {
			t.Errorf("%s plugin: %q", kind, q.env)
		}
	}
	for _, w := range r {
		kill(t, w.cmd.Process.Pid, syscall.SIGKILL)
		w.wait(t)
	}
}
