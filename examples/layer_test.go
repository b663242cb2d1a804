package examples

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
)

const withLayer = `
train = { per_rank_batch = 32, max_steps = 300 }
dataset.plugin = "synthetic"
dataset.options = { train_samples = 6400, test_samples = 100 }
launch.nproc_per_node = 2
checkpoint.every = "never"
[[layer_plugins]]
plugin = "./trainctl-plugin-swish"
[model]
layers = [
  { type = "flatten" },
  { type = "linear", out_features = 32 },
  { type = "plugin", name = "first", options = { beta = 0.7 } },
  { type = "linear", out_features = 32 },
  { type = "plugin", name = "second" },
  { type = "linear", out_features = 10 },
]
`

// A layer plugin that is killed or stopped during a run is replaced, and the weights are those of a run
// that was left alone. Without restarts, the run ends with what to do.
func TestLayersAreReplaced(t *testing.T) {
	inModule(t, "layer", "test", "./...")
	dir := build(t, "layer", "trainctl-plugin-swish")
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

// layerRun trains, sends a signal to a layer plugin after the first step, unless s is 0, and returns how
// the run ended and its output.
func layerRun(t *testing.T, dir, config string, s syscall.Signal) (sum event.Summary, output string, err error) {
	t.Helper()
	cmd, out := begin(t, dir, config)
	if s != 0 {
		signalPlugin(t, filepath.Join(dir, "trainctl-plugin-swish"), s, func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "runs/train/1/events.jsonl"))
			return bytes.Contains(text, []byte(`"event":"step"`))
		})
	}
	if err = cmd.Wait(); err == nil {
		sum, err = event.ReadSummary(afero.NewOsFs(), filepath.Join(dir, "runs/train/1/summary.json"))
	}
	return sum, out.String(), err
}
