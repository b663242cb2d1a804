//go:build linux

package gpu

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/e2e/rig"
)

// onNCCL trains on GPUs over NCCL.
func onNCCL(isolation string, more ...string) []string {
	return rig.Set(append([]string{
		`run.device="cuda"`, "run.deterministic=false", `backend.plugin="nccl"`, fmt.Sprintf("backend.options.isolation=%q", isolation),
	}, more...)...)
}

// Gradients that NCCL reduces where they lie have the bits of gradients that
// travel by way of the host, wherever NCCL runs, whatever crosses to its
// process, and whatever else the ranks exchange. The fake adds in rank order, as
// the TCP backend does; the real one need not.
func TestNCCLHasTheBitsOfTCP(t *testing.T) {
	t.Parallel()
	const seldom = `checkpoint.every="never"`
	for _, c := range []struct {
		name string
		set  []string
		runs map[string][]string // by isolation, what is added to the environment
	}{
		{"plain", nil, map[string][]string{"isolated": nil, "inproc": nil, "auto": nil}},
		{"handles", nil, map[string][]string{"isolated": {"CUDA_FAKE_NO_DESCRIPTORS=1"}}},
		{"no events", nil, map[string][]string{"isolated": {"CUDA_FAKE_NO_EVENTS=1"}}},
		{"statistics", []string{"ddp.sync_batchnorm=true"}, map[string][]string{"isolated": nil, "inproc": nil}},
		{"accumulated", []string{"train.per_rank_batch=4", "train.accumulate_steps=2", "train.max_norm=1", "ddp.bucket_cap_mb=0.002"}, map[string][]string{"isolated": nil}},
		{"bfloat16", []string{`precision={plugin="amp", options={level="O2", dtype="bf16"}}`}, map[string][]string{"isolated": nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := fakeGPUs(t, 2)
			keys := append([]string{"train.max_steps=5", seldom}, c.set...)
			tcp := p.Run(t, append(rig.Set(`run.device="cuda"`), rig.Set(keys...)...)...)
			for isolation, env := range c.runs {
				q := *p
				q.Env = append(q.Env, env...)
				nccl := q.Run(t, onNCCL(isolation, keys...)...)
				if nccl.Summary.Backend != "nccl" || nccl.Summary.Device != "cuda" {
					t.Errorf("%s: backend %s on %s", isolation, nccl.Summary.Backend, nccl.Summary.Device)
				}
				rig.EqualBits(t, isolation, nccl.Losses(), tcp.Losses())
				rig.EqualParams(t, isolation, nccl, tcp)
			}
		})
	}
}

// A run over NCCL continues from its checkpoint as if it had not ended.
func TestNCCLResumes(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	whole := p.Run(t, onNCCL("isolated", "train.max_steps=6")...)
	p.Run(t, append(onNCCL("inproc", "train.max_steps=6"), "--resume", whole.Checkpoint(4))...).Continues(t, whole, 4)
}

// Two ranks share a GPU where both the user and NCCL allow it.
func TestNCCLOnASharedGPU(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 1)
	short := []string{"train.max_steps=2", "run.allow_shared_device=true"}
	p.Train(t, onNCCL("isolated", short...)...).Expect(t, 3).Prints(t, "ranks 0 and 1 have the same GPU", "allow_shared_device = true")

	allowed := append(short, "backend.options.allow_shared_device=true")
	p.Train(t, onNCCL("isolated", allowed...)...).Expect(t, 0)
	p.Train(t, onNCCL("inproc", allowed...)...).Expect(t, 0)

	p.Env = append(p.Env, "NCCL_FAKE_VERSION=22706")
	p.Train(t, onNCCL("isolated", allowed...)...).Expect(t, 3).Prints(t, "which NCCL 2.27.6 does not support", "install 2.30 or later")
}

// Different versions of NCCL are reported before it could hang.
func TestNCCLVersionsDiffer(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	endpoint := fmt.Sprint("127.0.0.1:", rig.FreePort(t))
	var nodes []*rig.Proc
	for i, version := range []string{"23004", "22706"} {
		r := p.Node(i, endpoint, append(onNCCL("isolated"), "--nproc-per-node", "1")...)
		r.Cmd.Env = append(r.Cmd.Env, "NCCL_FAKE_VERSION="+version, fmt.Sprint("CUDA_VISIBLE_DEVICES=", i))
		nodes = append(nodes, r.Start(t))
	}
	for _, r := range nodes {
		r.Wait(t).Prints(t, "rank 0 has NCCL 2.30.4 and rank 1 has 2.27.6; install the same version for all ranks")
	}
}

// lasting returns settings of a run over NCCL that is long enough to disturb.
func lasting(isolation string, more ...string) []string {
	return onNCCL(isolation, append([]string{"train.epochs=8", "train.eval_every=0", `checkpoint.every="never"`, `backend.timeout="20s"`}, more...)...)
}

// A plugin that dies is replaced, the new one maps the same memory, and the run
// ends with the bits of an undisturbed run.
func TestNCCLPluginIsReplaced(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	args := append([]string{"run", p.Config}, lasting("auto", "backend.restarts=2")...)
	p.Trainctl(t, args...).Expect(t, 0).Prints(t, "backend.restarts needs a backend that can be replaced")
	r := p.Start(t, args...)
	p.WaitForSteps(t, r, 2, 5)
	rig.Signal(t, p.PluginOf(t, "backend", 1).PID, syscall.SIGKILL)
	rig.Eventually(t, "a new group", func() bool { return len(rig.EventsOf[*event.BackendRestarted](t, p.RunDir(2))) > 0 })
	r.Wait(t).Expect(t, 0).Prints(t, "backend restarted, generation 2, step ", `backend plugin "nccl" (pid `, "the process ended: signal: killed")
	a, b := p.Summary(t, 1), p.Summary(t, 2)
	if b.Comm.BackendRestarts != 1 || a.Steps != b.Steps || b.Status != "ok" {
		t.Errorf("summaries %+v and %+v", a, b)
	}
	rig.SameParams(t, a, b)
}

// onEachIsolation runs a test with NCCL in a process of its own, and in the rank's.
func onEachIsolation(t *testing.T, test func(t *testing.T, p *rig.Place, isolation string)) {
	for _, isolation := range []string{"isolated", "inproc"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			test(t, fakeGPUs(t, 2), isolation)
		})
	}
}

// A rank that is killed ends the job, whichever rank waits for its GPU.
func TestNCCLRankIsKilled(t *testing.T) {
	t.Parallel()
	onEachIsolation(t, func(t *testing.T, p *rig.Place, isolation string) {
		r := p.Start(t, append([]string{"run", p.Config}, lasting(isolation, "train.epochs=100000")...)...)
		p.WaitForSteps(t, r, 1, 5)
		r.Began = time.Now()
		rig.Signal(t, p.Worker(t, 1).PID, syscall.SIGKILL)
		r.Wait(t).Expect(t, 5).Soon(t).OneFailureBlock(t).Prints(t, "rank      : 1", "SIGKILL")
	})
}

// A collective that never ends fails at its deadline, and the rank's stream, which waits for
// it, continues. The deadline leaves time for a step: the GPUs are programs.
func TestNCCLHangs(t *testing.T) {
	t.Parallel()
	onEachIsolation(t, func(t *testing.T, p *rig.Place, isolation string) {
		p.Env = append(p.Env, "NCCL_FAKE_HANG=1:14") // a bucket: the start has six, which include passing warnings on, and a step three
		p.Train(t, lasting(isolation, `backend.timeout="8s"`)...).Expect(t, 5).Soon(t).OneFailureBlock(t).
			Prints(t, "all_reduce #", "stalled in bucket 0 after ", "the collective itself hangs")
	})
}

// The tools see the GPUs and NCCL as training does.
func TestToolsOnNCCL(t *testing.T) {
	t.Parallel()
	p := fakeGPUs(t, 2)
	doctor := p.Trainctl(t, "doctor").Stdout
	for _, want := range []string{"NCCL", "2.30.4", "device 1", "memory is shared by fd", `"auto" is cuda`} {
		if !strings.Contains(doctor, want) {
			t.Errorf("doctor does not say %q:\n%s", want, doctor)
		}
	}
	for _, n := range []string{"1", "2"} {
		r := p.Trainctl(t, "bench", "allreduce", "--backend", "nccl", "--nproc", n, "--sizes", "64KiB", "--budget", "20ms").Expect(t, 0)
		for _, want := range []string{"inproc", "isolated", "RATIO", "GPU MiB"} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("%s ranks: the table does not say %q:\n%s", n, want, r.Stdout)
			}
		}
	}
}
