package cifar10

import (
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

var refused = map[string]map[string]any{
	"mean":     {"mean": []any{0.1, 0.2}},
	"std":      {"std": []any{0.0}},
	"mirrors":  {"mirrors": []any{"nowhere"}},
	"fallback": {"fallback": "Generated"},
	"augment":  {"augment": "heavy"},
	"timeout":  {"timeout": "soon"},
	"root":     {"root": ""},
}

func TestContractOnFiles(t *testing.T) {
	fs := unpacked(t, "/r")
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     func(testing.TB) sdk.Dataset { return newDataset(fs, "") },
		Options: map[string]any{"root": "/r", "augment": "standard", "mean": []any{0.4914, 0.4822, 0.4465}, "std": []any{0.2470, 0.2435, 0.2616}},
		Refused: refused,
	})
}

func TestContractOnGeneratedShapes(t *testing.T) {
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     func(testing.TB) sdk.Dataset { return New(afero.NewMemMapFs()) },
		Options: map[string]any{"root": "/none", "download": false, "fallback": "generated", "augment": "standard", "train_samples": 500, "test_samples": 100},
		Refused: refused,
	})
}
