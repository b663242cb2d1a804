package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
)

const observed = `
[dataset]
plugin = "synthetic"
options = { train_samples = 6400, test_samples = 100 }
[train]
per_rank_batch = 32
max_steps = 600
[model]
name = "mlp"
hidden = [32]
[checkpoint]
every = "never"
[launch]
nproc_per_node = 2
`

const observer = `
[[observers]]
plugin = "./trainctl-plugin-curve"
restarts = 0
close_timeout = "2s"
`

// An observer that is killed or stopped during a run changes neither its losses nor its weights, and
// the run says what the observer missed. One that is left alone gets all steps.
func TestObserversDoNoHarm(t *testing.T) {
	inModule(t, "observer", "test", "./...")
	dir := build(t, "observer", "trainctl-plugin-curve")
	alone, losses := observedRun(t, dir, observed, 0)
	watched, same := observedRun(t, dir, observed+observer, 0)
	compareRuns(t, "observed", alone, watched, losses, same)
	if watched.missed != "" {
		t.Errorf("an observer that works: %s", watched.missed)
	}
	csv, err := os.ReadFile(filepath.Join(dir, "loss.csv"))
	if n := bytes.Count(csv, []byte("\n")); err != nil || n != 601 {
		t.Errorf("%d lines of loss.csv, %v", n, err)
	}
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		harmed, same := observedRun(t, dir, observed+observer, s)
		compareRuns(t, s.String(), alone, harmed, losses, same)
		if !strings.Contains(harmed.missed, `observer plugin "./trainctl-plugin-curve" missed `) {
			t.Errorf("%v: the run does not say what the observer missed: %q", s, harmed.missed)
		}
	}
}

// outcome is how a run ended.
type outcome struct {
	event.Summary
	missed string
}

func compareRuns(t *testing.T, name string, want, got outcome, losses, same []string) {
	t.Helper()
	if want.ParamsSHA256[0] != got.ParamsSHA256[0] || want.ParamsSHA256[1] != got.ParamsSHA256[1] || want.Train.Loss != got.Train.Loss || got.Status != "ok" {
		t.Errorf("%s: status %s, loss %v, weights %v; without an observer %v and %v", name, got.Status, got.Train.Loss, got.ParamsSHA256, want.Train.Loss, want.ParamsSHA256)
	}
	if len(losses) != 600 || fmt.Sprint(losses) != fmt.Sprint(same) {
		t.Errorf("%s: %d losses differ from %d without an observer", name, len(same), len(losses))
	}
}

// observedRun trains, sends a signal to the observer as soon as it is open, unless s is 0, and returns
// how the run ended and its losses.
func observedRun(t *testing.T, dir, config string, s syscall.Signal) (o outcome, losses []string) {
	t.Helper()
	cmd, out := begin(t, dir, config)
	if s != 0 {
		signalObserver(t, dir, s)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("trainctl run: %v\n%s", err, out)
	}
	var err error
	if o.Summary, err = event.ReadSummary(afero.NewOsFs(), filepath.Join(dir, "runs/train/1/summary.json")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "runs/train/1/events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		r, err := event.Decode(line)
		if step, ok := r.Event.(*event.StepDone); ok {
			losses = append(losses, strconv.FormatFloat(step.LossMean, 'g', -1, 64))
		} else if w, ok := r.Event.(*event.Warning); ok && w.Source == "./trainctl-plugin-curve" {
			o.missed = w.Message
		} else if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	return o, losses
}

// begin starts a run with a configuration in place of the one before, whose files are removed.
func begin(t *testing.T, dir, config string) (cmd *exec.Cmd, out *bytes.Buffer) {
	t.Helper()
	for _, old := range []string{"runs", "loss.csv"} {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "train.toml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, out = exec.CommandContext(t.Context(), "./trainctl", "run", "train.toml"), &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// signalObserver waits until the observer has created its file, and sends it a signal.
func signalObserver(t *testing.T, dir string, s syscall.Signal) {
	t.Helper()
	signalPlugin(t, filepath.Join(dir, "trainctl-plugin-curve"), s, func() bool {
		_, err := os.Stat(filepath.Join(dir, "loss.csv"))
		return err == nil
	})
}

// signalPlugin waits until a plugin runs and is ready, and sends a signal to one of its processes.
func signalPlugin(t *testing.T, path string, s syscall.Signal, ready func() bool) {
	t.Helper()
	want, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("this system has no /proc, in which the plugin's process is found: ", err)
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if !ready() {
			continue
		}
		links, _ := filepath.Glob("/proc/[0-9]*/exe")
		for _, link := range links {
			if exe, _ := os.Readlink(link); exe != want {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			if err == nil {
				err = syscall.Kill(pid, s)
			}
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no process of %s was started", path)
}
