package python

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/trainctltest"
)

const swish = "examples/layer/swish.py"

func TestLayerConforms(t *testing.T) {
	inPython(t)
	o := sdktest.LayerOptions{
		New: sdktest.LayerPlugin(host.New(host.Options{}), swish), Options: map[string]any{"beta": 0.7},
		Refused: map[string]map[string]any{"beta": {"beta": "large"}},
	}
	sdktest.Layer(t, o)
	t.Run("inline", func(t *testing.T) {
		t.Setenv("TRAINCTL_DATA_PLANE", "inline")
		o.Shapes = [][]int{{4, 6}}
		sdktest.Layer(t, o)
	})
}

// swishes is the example layer in both languages.
func swishes(t *testing.T) map[string]string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "swish")
	cmd := exec.Command("go", "build", "-C", "../../examples/layer", "-buildvcs=false", "-o", program, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return map[string]string{"go": program, "python": swish}
}

const withSwish = `
dataset = { plugin = "synthetic", options = { shape = [6], classes = 3, train_samples = 96, test_samples = 30 } }
train = { per_rank_batch = 8, max_steps = 4 }
model.layers = [{ type = "linear", out_features = 8 }, { type = "plugin", options = { beta = 0.7 } }, { type = "linear", out_features = 8 }, { type = "plugin" }, { type = "linear", out_features = 3 }]
`

// A layer in Python trains as the same layer in Go, whatever the engine does around it, and also in a process
// that a person has started.
func TestLayerTrains(t *testing.T) {
	inPython(t)
	plugins := swishes(t)
	losses := func(plugin string, ranks int, set ...string) []float64 {
		t.Helper()
		cfg := trainctl.TOML(withSwish).With(fmt.Sprintf("layer_plugins=[{ plugin = %q }]", plugin)).With(set...)
		return trainctltest.Run(t, cfg, ranks, trainctltest.Memory()).Losses
	}
	for _, set := range [][]string{{"run.dtype=f64"}, {"train.recompute=blocks", "ddp.shard=optimizer"}} {
		want, got := losses(plugins["go"], 2, set...), losses(plugins["python"], 2, set...)
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Abs(b) }) {
			t.Errorf("%v: losses %v, of the layer in Go %v", set, got, want)
		}
	}
	want := losses(swish, 1)
	startByHand(t, swish, "--debug")
	if got := losses(swish, 1); len(got) != 4 || !slices.Equal(got, want) {
		t.Errorf("losses %v of a process that was attached, want %v", got, want)
	}
}

// A larger batch gets larger memory, and the process keeps the last alone. A process that is killed
// is replaced, and the call repeated with the same bits.
func TestLayerGrowsAndIsReplaced(t *testing.T) {
	inPython(t)
	for name, plugin := range swishes(t) {
		t.Run(name, func(t *testing.T) {
			l, err := host.New(host.Options{}).StartLayers(t.Context(), plugin)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close(context.Background())
			l.Replace(host.Replacement{Restarts: 1})
			r, err := l.Add(t.Context(), sdk.LayerRequest{Name: "act", Options: sdk.Options{"beta": 0.7}, Shape: []int{6}}, "")
			if err != nil {
				t.Fatal(err)
			}
			first := forward(t, r, 4)
			forward(t, r, 4096)
			if again := forward(t, r, 4); !slices.Equal(again, first) {
				t.Errorf("%v after a larger batch, %v before", again, first)
			}
			if maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", l.PID())); err == nil && strings.Count(string(maps), "trainctl:tensors") != 1 {
				t.Errorf("not one arena is mapped:\n%s", maps)
			}
			if err := syscall.Kill(l.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if again := forward(t, r, 4); !slices.Equal(again, first) || l.Replaced() != 1 {
				t.Errorf("%v of the %d. replacement, %v before", again, l.Replaced(), first)
			}
		})
	}
}

// forward computes the layer for a batch, whose first samples are always the same.
func forward(t *testing.T, r *host.RemoteLayer, batch int) []float32 {
	t.Helper()
	x, y, beta := make([]float32, batch*6), make([]float32, batch*6), []float32{0.7}
	for i := range x {
		x[i] = float32(i%100)/50 - 1
	}
	if err := r.Compute(false, tensor.F32, batch, [][]byte{tensor.Bytes(x), tensor.Bytes(beta)}, [][]byte{tensor.Bytes(y)}); err != nil {
		t.Fatal(err)
	}
	return y
}

// The plugins in docs/plugins.md run, and their suites pass.
func TestSnippetsConform(t *testing.T) {
	inPython(t)
	docs, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, part := range strings.Split(string(docs), "```") {
		body, found := strings.CutPrefix(part, "python\n#!")
		if i%2 == 0 || !found {
			continue
		}
		n++
		script := filepath.Join(t.TempDir(), "snippet.py")
		if err := os.WriteFile(script, []byte("#!"+body), 0o755); err != nil {
			t.Fatal(err)
		}
		h := host.New(host.Options{})
		if strings.Contains(body, "trainctl.Layer") {
			sdktest.Layer(t, sdktest.LayerOptions{New: sdktest.LayerPlugin(h, script), Shapes: [][]int{{4, 6}}})
		} else {
			sdktest.Dataset(t, sdktest.DatasetOptions{New: sdktest.DatasetPlugin(h, script), Samples: 64})
		}
	}
	if n != 2 {
		t.Errorf("%d plugins, want a data set and a layer", n)
	}
}
