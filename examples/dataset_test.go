// Package examples builds and runs the example plugins as users do.
package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestDatasetModule(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "trainctl-plugin-spirals")
	inModule(t, "dataset", "build", "-buildvcs=false", "-o", bin, ".")
	inModule(t, "dataset", "test", "./...")

	h := host.New(host.Options{})
	info, err := h.Describe(t.Context(), sdk.KindDataset, bin)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "spirals" || len(info.Options) != 4 {
		t.Errorf("Info is %+v", info)
	}
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     sdktest.DatasetPlugin(h, bin),
		Options: map[string]any{"turns": 2, "train_samples": 100, "test_samples": 30},
		Refused: map[string]map[string]any{"turns": {"turns": 0}, "noise": {"noise": "much"}},
	})
}

// The library's example trains in a test of another module, in memory and over TCP.
func TestLibraryModule(t *testing.T) {
	inModule(t, "library", "test", "./...")
}

func TestPrecisionModule(t *testing.T) {
	inModule(t, "precision", "test", "./...")
}

// inModule runs the go command in an example's own module.
func inModule(t *testing.T, dir string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v in %s: %v\n%s", args, dir, err, out)
	}
}

func TestDatasetConfigIsValid(t *testing.T) {
	cfg, err := config.Load(afero.NewOsFs(), filepath.Join("dataset", "spirals.toml"), config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	input := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}
	if _, err := nn.Build(cfg.Model, input, tensor.Spec{DType: tensor.I32}, 2); err != nil {
		t.Error(err)
	}
}
