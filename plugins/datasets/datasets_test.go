package datasets

import (
	"os"
	"slices"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// TestMain serves the data sets when the host starts this binary again, as
// trainctl does with its own.
func TestMain(m *testing.M) {
	if host.ServeBuiltin(hosted(), os.Args[1:]) {
		return
	}
	os.Exit(m.Run())
}

func hosted() (h []host.Builtin) {
	for _, b := range Builtins(afero.NewOsFs()) {
		h = append(h, host.Builtin{Kind: sdk.KindDataset, Name: b.Name, Plugin: sdk.Plugin{Dataset: b.New}})
	}
	return h
}

func TestBuiltinsCarryTheirNames(t *testing.T) {
	var names []string
	for _, b := range Builtins(afero.NewMemMapFs()) {
		names = append(names, b.Name)
		if got := b.New().Info().Name; got != b.Name {
			t.Errorf("%q says that it is %q", b.Name, got)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("%v is not in order", names)
	}
}

// TestContractThroughTheWire runs every data set in processes of its own.
func TestContractThroughTheWire(t *testing.T) {
	digits := map[string]any{"root": t.TempDir(), "download": false, "fallback": "generated", "train_samples": 500, "test_samples": 100}
	tables := map[string]map[string]any{
		"mnist":         digits,
		"fashion-mnist": digits,
		"synthetic":     {"shape": []any{3, 9, 11}, "train_samples": 200, "test_samples": 70},
	}
	refused := map[string]map[string]map[string]any{
		"mnist":     {"std": {"std": []any{0.0}}},
		"synthetic": {"shape": {"shape": []any{1 << 20, 1 << 20}}},
	}
	t.Setenv("TRAINCTL_DATA", "")
	h := host.New(host.Options{Builtins: hosted()})
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			sdktest.Dataset(t, sdktest.DatasetOptions{New: sdktest.DatasetProcess(h, name), Options: table, Refused: refused[name]})
		})
	}
}
