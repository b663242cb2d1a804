package main

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	sdktest.Dataset(t, sdktest.DatasetOptions{
		New:     func(testing.TB) sdk.Dataset { return &Spirals{} },
		Options: map[string]any{"train_samples": 200, "test_samples": 50},
		Refused: map[string]map[string]any{
			"turns": {"turns": 0},
			"noise": {"noise": -1.0},
		},
	})
}
