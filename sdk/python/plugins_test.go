package python

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// inPython lets scripts that ask for python3 find the one that TRAINCTL_PYTHON names, or
// that of the PATH, and this SDK. It skips the test if grpcio or NumPy is missing.
func inPython(t testing.TB, modules ...string) {
	t.Helper()
	exe := os.Getenv("TRAINCTL_PYTHON")
	if exe == "" {
		exe = "python3"
	}
	for _, m := range append(modules, "grpc", "numpy") {
		if out, err := exec.Command(exe, "-c", "import "+m).CombinedOutput(); err != nil {
			t.Skipf("%s has no %s (%v %.300s); TRAINCTL_PYTHON names one that has", exe, m, err, out)
		}
	}
	if path, err := exec.LookPath(exe); err == nil {
		exe = path
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "python3"), fmt.Appendf(nil, "#!/bin/sh\nexec %q \"$@\"\n", exe), 0o755); err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", sdk)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
}

func TestUnits(t *testing.T) {
	inPython(t)
	out, err := exec.CommandContext(t.Context(), "python3", "-m", "unittest", "discover", "-s", "tests").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDatasetConforms(t *testing.T) {
	inPython(t)
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     sdktest.DatasetPlugin(host.New(host.Options{}), "examples/dataset/spirals.py"),
		Samples: 200,
		Refused: map[string]map[string]any{"turns": {"turns": 0}, "noise": {"noise": "much"}},
	})
}

func TestPrecisionConforms(t *testing.T) {
	inPython(t)
	sdktest.Precision(t, sdktest.PrecisionOptions{
		New:     sdktest.PrecisionPlugin(host.New(host.Options{}), "examples/precision/halving.py"),
		Options: map[string]any{"interval": 7},
		Refused: map[string]map[string]any{"interval": {"interval": 0}, "init_scale": {"init_scale": 1000.0}},
	})
}

func TestBackendConforms(t *testing.T) {
	inPython(t)
	sdktest.Backend(t, sdktest.BackendOptions{
		New:    sdktest.BackendProcess(host.New(host.Options{}), "examples/backend/star.py"),
		Worlds: []int{1, 3}, Counts: []int{0, 1, 1000}, NoPrivate: true,
	})
}

// Without shared memory, the same plugins work inside gRPC messages.
func TestInlineDataPlane(t *testing.T) {
	inPython(t)
	t.Setenv("TRAINCTL_DATA_PLANE", "inline")
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     sdktest.DatasetPlugin(host.New(host.Options{}), "examples/dataset/spirals.py"),
		Samples: 64,
	})
}

// A script with a checksum runs from the descriptor that was verified.
func TestVerifiedScript(t *testing.T) {
	inPython(t)
	const script = "examples/dataset/spirals.py"
	sum, err := host.Checksum(sdk.KindDataset, script)
	if err != nil {
		t.Fatal(err)
	}
	locked := map[host.Key]host.Terms{{Kind: sdk.KindDataset, Plugin: script}: {SHA256: sum}}
	info, err := host.New(host.Options{Terms: locked}).Probe(t.Context(), sdk.KindDataset, script)
	if err != nil || info.Name != "spirals" {
		t.Errorf("%+v, %v", info, err)
	}
}
