package main

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	sdktest.Layer(t, sdktest.LayerOptions{
		New:     func(testing.TB) sdk.Layer { return Swish{} },
		Options: map[string]any{"beta": 0.7},
		Refused: map[string]map[string]any{"beta": {"beta": "large"}},
	})
}
