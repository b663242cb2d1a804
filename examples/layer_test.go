package examples

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
)

const withLayer = `
train = { per_rank_batch = 32, max_steps = 40 }
dataset.plugin = "synthetic"
dataset.options = { train_samples = 6400, test_samples = 100 }
launch.nproc_per_node = 2
optimizer = { name = "sgd", lr = 0.1, momentum = 0.9 }
checkpoint.every = "never"
[[layer_plugins]]
plugin = "./trainctl-plugin-swish"
[model]
layers = [
  { type = "flatten" },
  { type = "linear", out_features = 64 },
  { type = "plugin", name = "first", options = { beta = 0.7 } },
  { type = "linear", out_features = 64 },
  { type = "plugin", name = "second" },
  { type = "linear", out_features = 10 },
]
`

// The example layer, built as a user does.
func TestLayerModule(t *testing.T) {
	inModule(t, "layer", "test", "./...")
	dir := build(t, "layer", "trainctl-plugin-swish")
	t.Run("replaced", layersAreReplaced)
	t.Run("commands", func(t *testing.T) { commandsTakeLayers(t, dir) })
	t.Run("attached", func(t *testing.T) { layersAreAttached(t, dir) })
}

// waits makes the tenth call of the example's Forward, in one of the first steps, wait as long as a file is there. Another file
// shows that it waits.
const waits = `if calls++; calls == 10 {
		marked := false
		for _, err := os.Stat(hold); err == nil; _, err = os.Stat(hold) {
			if !marked {
				marked = os.WriteFile(hold+"-"+strconv.Itoa(os.Getpid()), nil, 0o644) == nil
			}
			time.Sleep(time.Millisecond)
		}
	}
	`

// A layer plugin that is killed or stopped in a call of a run is replaced, and the weights are those of a run
// that was left alone. Without restarts, the run ends with what to do.
func layersAreReplaced(t *testing.T) {
	dir := t.TempDir()
	buildTrainctl(t, dir)
	const call = "c.Compute(forward"
	buildChanged(t, "layer", "swish.go", filepath.Join(dir, "trainctl-plugin-swish"), call, waits+call, `"math"`, "\"math\"\n\"os\"\n\"strconv\"\n\"time\"",
		"// Swish is", fmt.Sprintf("const hold = %q\n\nvar calls int\n\n// Swish is", filepath.Join(dir, "hold")))
	alone, out, err := layerRun(t, dir, withLayer, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if first := alone.Train.Loss; alone.Eval == nil || *alone.Eval.Accuracy < 0.5 {
		t.Errorf("loss %v, evaluation %+v of patterns that are easy to learn", first, alone.Eval)
	}
	restarts := strings.Replace(withLayer, "swish\"\n", "swish\"\nrestarts = 1\n", 1)
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		got, out, err := layerRun(t, dir, restarts, s)
		if err != nil || got.ParamsSHA256[0] != alone.ParamsSHA256[0] || got.ParamsSHA256[1] != alone.ParamsSHA256[0] {
			t.Errorf("%v: %v, weights %.12v, want %.12v\n%s", s, err, got.ParamsSHA256, alone.ParamsSHA256, out)
		}
		// The launcher prints what any rank reports; events.jsonl has the events of rank 0.
		if n := strings.Count(out, `layer plugin "./trainctl-plugin-swish" of rank `); n != 1 || !strings.Contains(out, " restarted after ") {
			t.Errorf("%v: %d plugins were replaced\n%s", s, n, out)
		}
	}
	_, out, err = layerRun(t, dir, withLayer, syscall.SIGKILL)
	for _, want := range []string{`layer plugin "./trainctl-plugin-swish"`, "layer_plugins.restarts = 1 replaces a layer plugin that hangs or dies"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, want %q in\n%s", err, want, out)
		}
	}
}

// layerRun trains, and returns how the run ended and its output. Unless s is 0, the plugins wait in a call until
// one of them has got this signal.
func layerRun(t *testing.T, dir, config string, s syscall.Signal) (sum event.Summary, output string, err error) {
	t.Helper()
	hold := filepath.Join(dir, "hold")
	if s != 0 {
		if err := os.WriteFile(hold, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd, out := begin(t, dir, config)
	if s != 0 {
		signalPlugin(t, filepath.Join(dir, "trainctl-plugin-swish"), s, func() bool {
			waiting, _ := filepath.Glob(hold + "-*")
			return len(waiting) == 2 // those of both ranks
		})
		files, _ := filepath.Glob(hold + "*")
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err = cmd.Wait(); err == nil {
		sum, err = event.ReadSummary(afero.NewOsFs(), filepath.Join(dir, "runs/train/1/summary.json"))
	}
	return sum, out.String(), err
}

// smallLayer takes four steps on one rank, and saves checkpoints.
var smallLayer = strings.NewReplacer(
	"per_rank_batch = 32, max_steps = 40", "per_rank_batch = 8, max_steps = 4", "nproc_per_node = 2", "nproc_per_node = 1",
	"train_samples = 6400", "shape = [6], classes = 10, train_samples = 96", `"never"`, `"2 steps"`,
).Replace(withLayer)

const smallSweep = `
config = "small.toml"
metric = "train.loss"
[grid]
"model.layers[4].options.beta" = [0.5, 2.0]
`

// commandsTakeLayers: a model with a layer plugin is trained, evaluated, asked for predictions, swept and traced
// as any other. ONNX has no such layer, which the export says.
func commandsTakeLayers(t *testing.T, dir string) {
	t.Helper()
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6), }"
	npy := "\x93NUMPY\x01\x00\x46\x00" + header + strings.Repeat(" ", 69-len(header)) + "\n" + strings.Repeat("\x00\x00\x80\x3f", 6)
	for name, text := range map[string]string{"small.toml": smallLayer, "sweep.toml": smallSweep, "sample.npy": npy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "small.toml"}, 0, "ok after 4 steps"},
		{[]string{"eval", "small.toml", "--checkpoint", "small"}, 0, "100 samples"},
		{[]string{"predict", "small.toml", "sample.npy", "--checkpoint", "small"}, 0, "sample.npy"},
		{[]string{"ckpt", "export", "small.toml", "--checkpoint", "small", "--onnx", "x.onnx"}, 2, "first (plugin)"},
		{[]string{"sweep", "sweep.toml"}, 0, "model.layers[4].options.beta=2"},
		{[]string{"plugins", "trace", "./trainctl-plugin-swish", "--steps", "1", "--batch", "2"}, 0, "backward of layer trace"},
		{[]string{"plugins", "test", "./trainctl-plugin-swish", "--quick"}, 0, "failed 0"},
	} {
		cmd := exec.CommandContext(t.Context(), "./trainctl", c.args...)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("trainctl %v: exit code %d, want %d, and %q in\n%s", c.args, got, c.code, c.says, out)
		}
	}
}

// layersAreAttached: a layer plugin that a person has started gives the bits of one that trainctl starts.
func layersAreAttached(t *testing.T, dir string) {
	t.Helper()
	byHand := exec.CommandContext(t.Context(), filepath.Join(dir, "trainctl-plugin-swish"), "--debug")
	byHand.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	printed, err := byHand.StdoutPipe()
	if err == nil {
		err = byHand.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = byHand.Process.Signal(syscall.SIGTERM)
		_ = byHand.Wait()
	})
	lines := bufio.NewScanner(printed)
	var entry string
	for found := false; !found && lines.Scan(); {
		entry, found = strings.CutPrefix(lines.Text(), "export TRAINCTL_REATTACH=")
	}
	alone, out, err := layerRun(t, dir, smallLayer, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TRAINCTL_REATTACH", strings.Trim(entry, "'"))
	got, out, err := layerRun(t, dir, smallLayer, 0)
	if err != nil || got.ParamsSHA256[0] != alone.ParamsSHA256[0] || !strings.Contains(out, "TRAINCTL_REATTACH") {
		t.Errorf("%v, weights %.12v, want %.12v\n%s", err, got.ParamsSHA256, alone.ParamsSHA256, out)
	}
}
