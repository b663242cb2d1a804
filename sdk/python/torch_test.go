package python

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

const torchPlugin = "bin/trainctl-dataset-torch"

// A map-style data set with random transforms reads each sample alike in every process
// and batch of an epoch. It is one without PyTorch, which takes seconds to import.
func TestMapStyleConforms(t *testing.T) {
	inPython(t)
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New: sdktest.DatasetPlugin(host.New(host.Options{}), torchPlugin),
		Options: map[string]any{
			"path": "tests/modules", "target": "noisy:Noisy", "test_target": "noisy:test", "workers": 2,
		},
	})
}

// A kept sample is read once: a random transform gives the same in every epoch.
func TestTorchKeepsSamples(t *testing.T) {
	inPython(t)
	d := openTorch(t, "", map[string]any{"target": "noisy:Noisy", "cache": true})
	var inputs [2]string
	for epoch := range inputs {
		inputs[epoch], _ = oneBatch(t, d, epoch, 3, 1, 3)
	}
	if inputs[0] != inputs[1] {
		t.Error("a kept sample changed")
	}
}

// The processes of a run keep samples together: one that the first has read is not read by the second.
func TestTorchSharesSamples(t *testing.T) {
	inPython(t)
	dir, err := os.MkdirTemp("", "run") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var inputs [3]string
	for i := range inputs {
		place := dir
		if i == 2 { // of another run
			place = ""
		}
		d := openTorch(t, place, map[string]any{"target": "noisy:Apart", "cache": true})
		inputs[i], _ = oneBatch(t, d, 0, 1, 2, 3)
	}
	if inputs[0] != inputs[1] || inputs[0] == inputs[2] {
		t.Errorf("the samples of two processes of a run are %x and %x, of another run %x", inputs[0], inputs[1], inputs[2])
	}
}

// oneBatch reads samples of the training split.
func oneBatch(t *testing.T, d *host.Dataset, epoch int, indices ...int64) (input, target string) {
	t.Helper()
	if err := d.Request(0, sdk.Train, epoch, 42, indices); err != nil {
		t.Fatal(err)
	}
	x, y, err := d.Wait(0)
	if err != nil {
		t.Fatal(err)
	}
	return string(x), string(y)
}

// Mistakes are refused with their option and a fix.
func TestTorchRefusals(t *testing.T) {
	inPython(t)
	for target, want := range map[string]string{
		"noisy.Noisy":    "is not of the form module:Class",
		"nowhere:Noisy":  "has no module nowhere, looked for in ",
		"noisy:Nothing":  "the module noisy has no Nothing",
		"noisy:Stream":   "an IterableDataset cannot be used",
		"fractions:gcd_": "the module fractions has no gcd_",
	} {
		_, err := tryTorch(t, "", map[string]any{"target": target})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
	d := openTorch(t, "", map[string]any{"target": "noisy:Uneven", "workers": 1})
	if err := d.Request(0, sdk.Train, 0, 1, []int64{6, 7, 8}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Wait(0); !sdk.IsCorrupt(err) || !strings.Contains(err.Error(), "sample 7 has an input of shape (5,)") {
		t.Errorf("a sample of another size: %v", err)
	}
}

// MNIST as a torch.utils.data.Dataset, found by its name, gives the ConvNet on two ranks the
// bits of the built-in data set, with samples that are kept and without.
func TestTorchTrainsAsTheBuiltin(t *testing.T) {
	if testing.Short() {
		t.Skip("three runs of trainctl")
	}
	inPython(t, "torch")
	const mnist = "../../../shared/mnist"
	if _, err := os.Stat(mnist); err != nil {
		t.Skipf("MNIST is not beside the repository: %v", err)
	}
	bin, err := filepath.Abs("bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRAINCTL_PLUGIN_PATH", bin)
	program := filepath.Join(t.TempDir(), "trainctl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/trainctl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	arguments := fmt.Sprintf("{path=\"tests/modules\", target=\"mnist:MNIST\", arguments='{\"root\": %q, \"limit\": 60000}'}", mnist)
	want := paramsAfter(t, program, "mnist", fmt.Sprintf("{root=%q}", mnist))
	for _, more := range []string{"", ", cache=true, workers=1"} {
		if got := paramsAfter(t, program, "torch", strings.Replace(arguments, "'}", "'"+more+"}", 1)); got != want {
			t.Errorf("weights %.12s with the data set torch%s, %.12s with the built-in one", got, more, want)
		}
	}
}

// paramsAfter trains for a few steps and returns the checksum of the weights.
func paramsAfter(t *testing.T, program, dataset, options string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "run", "../../configs/mnist-ddp.toml", "--set", fmt.Sprintf("run.dir=%q", dir), "--set", "train.max_steps=12",
		"--set", "train.epochs=1", "--set", "dataset.plugin="+dataset, "--set", "dataset.options="+options)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, err := event.ReadSummary(afero.NewOsFs(), filepath.Join(dir, "mnist-ddp", "1", "summary.json"))
	if err != nil || s.Steps != 12 || len(s.ParamsSHA256) == 0 {
		t.Fatalf("%d steps, %v", s.Steps, err)
	}
	return s.ParamsSHA256[0]
}

// tryTorch opens the data set with options, in a run whose sockets are in a folder.
func tryTorch(t *testing.T, dir string, given map[string]any) (*host.Dataset, error) {
	t.Helper()
	given["path"] = "tests/modules"
	d, err := host.New(host.Options{SocketDir: dir}).StartDataset(t.Context(), torchPlugin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	options, problems := sdk.CheckOptions("dataset.options", d.Info().Options, given)
	if problems != nil {
		t.Fatal(problems)
	}
	_, err = d.Open(t.Context(), sdk.DatasetRequest{Options: options, WorldSize: 1, Seed: 42, Log: slog.New(slog.DiscardHandler)})
	return d, err
}

// openTorch is tryTorch for options that are right, with one slot for batches.
func openTorch(t *testing.T, dir string, given map[string]any) *host.Dataset {
	t.Helper()
	d, err := tryTorch(t, dir, given)
	if err == nil {
		err = d.Prepare(1, 8)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}
