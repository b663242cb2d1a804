//go:build linux

package failures

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/e2e/rig"
)

// A run whose backend dies or hangs, again and again, ends with the bits of one
// that was left alone.
func TestBackendIsReplaced(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := append([]string{"run", p.Config}, rig.Steps3200("backend.restarts=4")...)
	p.Trainctl(t, args...).Expect(t, 0)
	p.Trainctl(t, append(args, faults("step 400: kill backend of rank 0", "step 1100: kill backend of rank 1", "step 1900: hang backend of rank 0")...)...).
		Expect(t, 0).Prints(t, "backend restarted, generation 2, step ", "backend restarted, generation 4, step ",
		`rank 0, backend plugin "tcp" (pid `, "the process ended: signal: killed", "it gives no sign of life")
	a, b := p.Summary(t, 1), p.Summary(t, 2)
	if a.Comm.BackendRestarts != 0 || b.Comm.BackendRestarts != 3 || b.Restarts != 0 || a.Steps != b.Steps || b.Status != "ok" {
		t.Errorf("summaries %+v and %+v", a, b)
	}
	rig.SameParams(t, a, b)
}

// When restarts are used up the run ends as without them.
func TestBackendIsReplacedOnce(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := append([]string{"run", p.Config}, rig.Endless("backend.restarts=1")...)
	p.Trainctl(t, append(args, faults("step 50: kill backend of rank 1", "step 90: kill backend of rank 0")...)...).
		Expect(t, 5).OneFailureBlock(t).
		Prints(t, "rank      : 0", "backend.restarts = 1 are used up", `backend plugin "tcp"`, "the process ended: signal: killed")
}

// New plugins do not replace a rank that has died; it is named as fast as without them.
func TestRankIsKilledWithRestartsLeft(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			r := p.StartEndless(t, "backend.restarts=5")
			r.Began = time.Now()
			rig.Signal(t, p.Worker(t, 1).PID, sig)
			res := r.Wait(t).Expect(t, 5).Soon(t).OneFailureBlock(t)
			if sig == syscall.SIGKILL {
				res.Prints(t, "rank      : 1", "SIGKILL")
			} else {
				res.Prints(t, "rank 1 did not arrive", "no new backend", "stopped by the launcher: rank 1")
			}
		})
	}
}

// A rank whose data set or precision plugin is killed or stopped continues with the same
// samples and the same loss scale: losses and weights are those of an undisturbed run.
func TestOtherPluginsAreReplaced(t *testing.T) {
	t.Parallel()
	amp := `options={level="O1", dtype="fp16", init_scale=64.0, growth_interval=97}`
	for name, plugins := range map[string][]string{
		"built-in": {`precision={plugin="amp", restarts=2, ` + amp + `}`},
		"elastic":  {`precision={plugin="amp", restarts=2, ` + amp + `}`, "launch.elastic=true"},
		"a user's": {`precision={plugin="./faulty", restarts=2, ` + amp + `}`, `dataset.plugin="./faulty"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.NewPlace(t)
			p.AddFaultyPlugin(t)
			// The other rank waits in a collective while a plugin hangs for two seconds and starts anew, which takes long on a busy machine.
			args := append([]string{"run", p.Config}, rig.Steps3200(append(plugins, "dataset.restarts=2", `dataset.timeout="4s"`, `backend.timeout="1m"`)...)...)
			p.Trainctl(t, args...).Expect(t, 0)
			p.Trainctl(t, append(args, faults("step 500: kill dataset of rank 1", "step 900: kill precision of rank 0", "step 1300: hang dataset of rank 0", "step 2200: hang precision of rank 1")...)...).
				Expect(t, 0).Prints(t, `of rank 1 restarted after `, `of rank 0 restarted after `, "the process ended: signal: killed", "it gives no sign of life")
			a, b := p.Summary(t, 1), p.Summary(t, 2)
			if b.PluginRestarts["dataset"] != 2 || b.PluginRestarts["precision"] != 2 || len(a.PluginRestarts) != 0 || b.Restarts != 0 {
				t.Errorf("restarts %v and %v", a.PluginRestarts, b.PluginRestarts)
			}
			if got := restartsByRank(t, p.RunDir(2)); got != [2]int{2, 2} {
				t.Errorf("the events have %v restarts of ranks 0 and 1", got)
			}
			rig.SameParams(t, a, b)
			equalSteps(t, p)
		})
	}
}

// restartsByRank counts the plugin restarts of two ranks in a run's events.
func restartsByRank(t *testing.T, run string) (n [2]int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(run, "events.jsonl"))
	rig.Must(t, err)
	for line := range bytes.Lines(text) {
		if r, err := event.Decode(line); err == nil && r.Event.Kind() == (*event.PluginRestarted)(nil).Kind() {
			n[r.Rank]++
		}
	}
	return n
}

// equalSteps compares the loss and the loss scale of every step of a place's first two runs.
func equalSteps(t *testing.T, p *rig.Place) {
	t.Helper()
	a, b := rig.EventsOf[rig.StepEvent](t, p.RunDir(1)), rig.EventsOf[rig.StepEvent](t, p.RunDir(2))
	if len(a) != len(b) {
		t.Fatalf("%d and %d steps", len(a), len(b))
	}
	for i := range a {
		if a[i].LossMean != b[i].LossMean || a[i].Scale != b[i].Scale {
			t.Fatalf("step %d: loss %v, scale %v, undisturbed %v, %v", a[i].Step, b[i].LossMean, b[i].Scale, a[i].LossMean, a[i].Scale)
		}
	}
}

// A data set plugin that panics again and again uses up its restarts.
func TestDatasetRestartsAreUsedUp(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	p.AddFaultyPlugin(t)
	r := p.Start(t, append(append([]string{"run", p.Config}, p.FaultArgs("dataset", "panic")...), rig.Set("dataset.restarts=3")...)...)
	r.Wait(t).Expect(t, 5).OneFailureBlock(t).Prints(t, "rank      : 1", "dataset.restarts = 3 are used up", "this plugin panics on purpose", `dataset plugin "./faulty" of rank 1 restarted after `)
}

// faults are the arguments that make faults.
func faults(at ...string) []string {
	return append(rig.Set(fmt.Sprintf(`faults.at=["%s"]`, strings.Join(at, `", "`))), "--allow-faults")
}

// A run makes no fault unless it is told to, and then it makes them where the
// configuration says: ranks that are killed restart, a damaged checkpoint is passed over, a
// full disk is waited out, and a silent node and a slow rank only cost time.
func TestFaultsOnPurpose(t *testing.T) {
	t.Parallel()
	p := rig.NewPlace(t)
	args := append(rig.Steps800(), "--max-restarts", "1")
	p.Trainctl(t, args...).Expect(t, 0)
	all := faults("step 50: kill rank 1")
	p.Trainctl(t, append(args, all[:2]...)...).Expect(t, 2).Prints(t, "faults.at", "this configuration makes faults on purpose", "--allow-faults")
	p.Trainctl(t, append(args, faults("step 50: kill rank 7")...)...).Expect(t, 2).Prints(t, `"step 50: kill rank 7": there is no such rank or node`)
	p.Trainctl(t, append(args, faults("step 300: damage checkpoint", "step 301: kill rank 1")...)...).Expect(t, 0).Prints(t, "injected fault: step 301: kill rank 1")
	p.Trainctl(t, append(args, faults("step 100: delay rank 1 by 300ms", "step 200: silence node 0 for 500ms")...)...).Expect(t, 0).Prints(t, "injected fault: step 100", "injected fault: step 200")
	full := p.Trainctl(t, append(args, faults("step 100: fill disk")...)...).Expect(t, 0)
	full.Prints(t, "no space left on device")
	whole := p.Summary(t, 1)
	for n := 3; n <= 5; n++ {
		rig.SameParams(t, whole, p.Summary(t, n))
	}
	if s := p.Summary(t, 3); s.Restarts != 1 {
		t.Errorf("%d restarts", s.Restarts)
	}
}
