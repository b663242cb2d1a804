package cifar10

import (
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/plugins/datasets/source/sourcetest"
)

var refused = sourcetest.Refused(map[string]map[string]any{"augment": {"augment": "heavy"}})

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
		New: func(testing.TB) sdk.Dataset { return New(afero.NewMemMapFs()) },
		Options: map[string]any{"root": "/none", "download": false, "fallback": "generated", "augment": "standard", "train_samples": 500, "test_samples": 100,
			"randaugment": 2, "color_jitter": []any{0.4, 0.4, 0.4, 0.1}, "random_erasing": 0.25, "mixup": 0.2, "cutmix": 1.0},
		Refused: refused,
	})
}
