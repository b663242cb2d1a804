package main

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	sdktest.Precision(t, sdktest.PrecisionOptions{
		New:     func(testing.TB) sdk.Precision { return &Halving{} },
		Options: map[string]any{"interval": 7},
		Refused: map[string]map[string]any{
			"interval":   {"interval": 0},
			"init_scale": {"init_scale": 1000.0},
		},
	})
}
