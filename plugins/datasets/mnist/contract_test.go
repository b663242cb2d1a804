package mnist

import (
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/plugins/datasets/source/sourcetest"
)

var refused = sourcetest.Refused(map[string]map[string]any{
	"augment": {"augment": "heavy"}, "color_jitter": {"color_jitter": []any{0.4, 0.4, 0.4, 0.1}},
})

func TestContractOnFiles(t *testing.T) {
	fs := afero.NewMemMapFs()
	put(t, fs, "/r", zippedFiles(small()))
	for name, open := range map[string]func() *Dataset{
		"mnist":         func() *Dataset { return newDataset(fs, "") },
		"fashion-mnist": func() *Dataset { return NewFashion(fs) },
	} {
		t.Run(name, func(t *testing.T) {
			sdktest.Dataset(t, sdktest.DatasetOptions{
				New:     func(testing.TB) sdk.Dataset { return open() },
				Options: map[string]any{"root": "/r", "augment": "standard", "mean": []any{0.1307}, "std": []any{0.3081}},
				Refused: refused,
			})
		})
	}
}

func TestContractOnGeneratedDigits(t *testing.T) {
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New: func(testing.TB) sdk.Dataset { return newDataset(afero.NewMemMapFs(), "") },
		Options: map[string]any{"root": "/none", "download": false, "fallback": "generated", "augment": "standard", "train_samples": 2000, "test_samples": 500,
			"randaugment": 2, "color_jitter": []any{0.4, 0.4, 0.0, 0.0}, "random_erasing": 0.25, "mixup": 0.2, "cutmix": 1.0},
		Refused: refused,
	})
}
