package imagefolder

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	fs := damage(t)
	table := small()
	table["corrupt"] = "skip"
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     func(testing.TB) sdk.Dataset { return New(fs) },
		Options: table,
		Refused: map[string]map[string]any{
			"root":    {"root": "/none"},
			"train":   {"train": ""},
			"val":     {"val": "train"},
			"size":    {"size": 0},
			"resize":  {"resize": 8},
			"scale":   {"scale": []any{0.5}},
			"ratio":   {"ratio": []any{2.0, 1.0}},
			"std":     {"std": []any{0.0}},
			"mean":    {"mean": []any{0.1, 0.2}},
			"corrupt": {"corrupt": "ignore"},
			"augment": {"augment": "heavy"},
			"workers": {"workers": 0},
		},
	})
}
