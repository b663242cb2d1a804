package launch

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/base/crash"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestFailureFormat(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	base := Cause{Rank: 1, LocalRank: 1, Host: "node0", PID: 4242, Time: at, Step: 41, Phase: "backward", LastLines: []string{"step 41", "panic: boom"}}
	with := func(change func(*Cause)) Cause { c := base; change(&c); return c }
	for name, f := range map[string]*Failure{
		"killed": {Job: "mnist-ddp", MaxRestarts: 2, Attempt: 1, Root: with(func(c *Cause) { c.ExitCode, c.Signal = -9, "SIGKILL" }),
			Others:  []Cause{{Rank: 2, LocalRank: 2, Host: "node0", PID: 4243, ExitCode: 1, Time: at.Add(12 * time.Millisecond)}},
			Stopped: []int{0, 3}},
		"memory": {Job: "mnist-ddp", Root: with(func(c *Cause) {
			c.ExitCode, c.Signal, c.Memory = -9, "SIGKILL", "the kernel killed 1 process(es) of this control group because memory ran out (limit 2.0 GiB)"
		})},
		"config": {Job: "mnist-ddp", Root: with(func(c *Cause) { c.ExitCode, c.Step, c.Phase, c.LastLines = ExitRefused, -1, "", nil })},
		"exit": {Job: "mnist-ddp", Root: with(func(c *Cause) { c.ExitCode, c.Log = 1, "runs/mnist-ddp/1/logs/rank-1.log" }), Stopped: []int{0},
			Next: []string{"--resume auto continues from the newest good checkpoint: step 40, runs/mnist-ddp/1/checkpoints/step-40."}},
		"peer": {Job: "mnist-ddp", Root: with(func(c *Cause) { c.ExitCode = ExitPeer })},
		"diverged": {Job: "mnist-ddp", MaxRestarts: 2, Root: with(func(c *Cause) {
			c.ExitCode, c.LastLines = ExitDiverged, []string{"error: diverged at step 42"}
		}), Stopped: []int{0}},
		"crash": {Job: "mnist-ddp", Root: with(func(c *Cause) { c.ExitCode, c.Signal = -11, "SIGSEGV" })},
		"panic": {Job: "mnist-ddp", Root: with(func(c *Cause) {
			c.ExitCode, c.LastLines, c.Log = panicked, []string{"step 41"}, "runs/mnist-ddp/1/logs/rank-1.log"
			c.Crash = &crash.Report{Message: "panic: runtime error: invalid memory address or nil pointer dereference", Signal: "SIGSEGV: segmentation violation",
				Address: "0x8", Goroutine: "1 [running]", Frames: []string{"core/train.(*Loop).step at core/train/step.go:41", "main.main at cmd/trainctl/main.go:9"}}
		})},
		"sent": {Job: "mnist-ddp", Root: with(func(c *Cause) {
			c.ExitCode, c.LastLines = panicked, nil
			c.Crash = &crash.Report{Signal: "SIGSEGV: segmentation violation", Sent: true, Goroutine: "1 [select]", Frames: []string{"main.main at cmd/trainctl/main.go:9"}}
		})},
		"node": {Job: "mnist-ddp", Root: Cause{Rank: -1, Host: "node1", Time: at, Step: -1,
			Message: "the launcher of node 1 is gone (node1, 10.0.0.2:5000)"}, Stopped: []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "failure-"+name+".txt")
			if *update {
				os.MkdirAll("testdata", 0o755)
				if err := os.WriteFile(path, []byte(f.Format()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), f.Format()); d != "" {
				t.Error(d)
			}
			text, err := json.Marshal(f)
			back := new(Failure)
			if err == nil {
				err = json.Unmarshal(text, back)
			}
			if d := cmp.Diff(f, back); err != nil || d != "" {
				t.Error(err, d)
			}
		})
	}
}

// What ran out is the better advice than what the exit code says.
func TestAdviceAboutShortages(t *testing.T) {
	for line, want := range map[string]string{
		"fatal error: out of memory":                                             "trainctl plan",
		"fatal error: runtime: out of memory":                                    "trainctl plan",
		"error: checkpoint of step 6: write x: no space left on device":          "--run-dir",
		"error: shared memory (1 byte): truncate gradients: file too large":      "ulimit -f",
		"error: backend plugin \"tcp\": open: accept: too many open files in it": "ulimit -n",
	} {
		f := Failure{Root: Cause{Rank: 1, ExitCode: panicked, LastLines: []string{"something", line}}}
		if got := f.Advice(); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// A plugin that was killed gets the hints of a rank that was.
func TestAdviceForAKilledPlugin(t *testing.T) {
	for cause, rank := range map[string]Cause{
		"signal: killed": {Signal: "SIGKILL"},
		"signal: killed: the kernel killed 1 process(es) because memory ran out (limit of its control group: 0.4 GiB)": {Memory: "the kernel killed"},
	} {
		c := Cause{Rank: 3, ExitCode: 1, LastLines: []string{"error: " + cause}, Account: Account{Plugin: &PluginFault{Kind: "dataset", Name: "mine", Cause: cause}}}
		plugin := strings.Join(c.advice(), "\n")
		_, hint, _ := strings.Cut(rank.advice()[0], "it")
		if !strings.Contains(plugin, "dataset plugin of rank 3") || !strings.Contains(plugin, hint) {
			t.Errorf("%q is not in %q", hint, plugin)
		}
	}
}

// Advice about a plugin that hangs names the rank, the operation, the run and the
// setting that helps.
func TestAdviceForAHungPlugin(t *testing.T) {
	plugin := &PluginFault{Kind: "backend", Name: "star", PID: 7, Operation: "all_reduce #14", Hung: true, Cause: "no heartbeat for 10s"}
	f := Failure{Root: Cause{Rank: 3, ExitCode: 1, Log: "/data/runs/job/7/logs/rank-3.log", Account: Account{Plugin: plugin}},
		Next: []string{"--resume auto continues from the newest good checkpoint: step 40, runs/job/7/checkpoints/step-40."}}
	got := strings.Join(f.Advice(), "\n")
	for _, want := range []string{"backend plugin of rank 3 hangs in all_reduce #14", "backend.restarts = 1", "trainctl doctor --run /data/runs/job/7 ", "checkpoints/step-40"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if plugin.Restarts = 2; !strings.Contains(strings.Join(f.Advice(), "\n"), "backend.restarts = 2 did not save the run") {
		t.Errorf("restarts that were there are advised: %q", f.Advice())
	}
	if plugin.Kind = "dataset"; strings.Contains(strings.Join(f.Advice(), "\n"), "backend.restarts") {
		t.Errorf("a data set is not a backend: %q", f.Advice())
	}
}

// A plugin that died is reported by its kind; a machine that ran out of something is
// the better advice.
func TestAdviceForADeadPlugin(t *testing.T) {
	c := Cause{Rank: 1, ExitCode: 1, Account: Account{Plugin: &PluginFault{Kind: "backend", Name: "star", Operation: "broadcast #2", Cause: "signal: killed"}}}
	if got := strings.Join(c.advice(), "\n"); !strings.Contains(got, "backend plugin of rank 1 died") || !strings.Contains(got, "backend.restarts = 1") {
		t.Error(got)
	}
	c.LastLines = []string{"fatal error: out of memory"}
	if got := strings.Join(c.advice(), "\n"); !strings.Contains(got, "trainctl plan") {
		t.Error(got)
	}
}

// What a rank says of its plugin is in the failure, whatever its text is.
func TestPluginFaultTravels(t *testing.T) {
	read := func(line []byte) (a Account) {
		var f struct {
			Event string
			PluginFault
		}
		if json.Unmarshal(line, &f) == nil && f.Event == "plugin_failed" {
			a.Plugin = &f.PluginFault
		}
		return a
	}
	res, _ := run(t, Options{Nproc: 2, Grace: 5 * time.Second, Command: asRole("hung:1:1"), Account: read})
	f := res.Failure()
	want := &PluginFault{Kind: "backend", Name: "star", PID: 7, Operation: "all_reduce #14", Hung: true, Cause: "silent"}
	if d := cmp.Diff(want, f.Root.Plugin); d != "" || f.Root.Rank != 1 || !strings.Contains(f.Format(), `plugin    : backend "star" (pid 7) hangs in all_reduce #14: silent`) {
		t.Errorf("%s\n%s", d, f.Format())
	}
}

// A run's folder with a space is quoted in the command that names it.
func TestAdviceQuotesFiles(t *testing.T) {
	c := Cause{Rank: 3, Log: "/data/my runs/job/7/logs/rank-3.log", Account: Account{Plugin: &PluginFault{Kind: "backend", Name: "tcp", Hung: true}}}
	if got := strings.Join(c.advice(), "\n"); !strings.Contains(got, "trainctl doctor --run '/data/my runs/job/7' ") {
		t.Error(got)
	}
}

// What there is to go on from is judged where the checkpoints are read: the advice
// for an exit code promises none.
func TestAdviceForDivergencePromisesNoCheckpoint(t *testing.T) {
	f := &Failure{Root: Cause{ExitCode: ExitDiverged}}
	if text := strings.Join(f.Advice(), " "); strings.Contains(text, "--resume") {
		t.Error(text)
	}
	f.Next = []string{"--resume auto goes on from step 3"}
	if text := strings.Join(f.Advice(), " "); !strings.HasSuffix(text, f.Next[0]) {
		t.Error(text)
	}
}
