package main

import (
	"path/filepath"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	sdktest.Observer(t, sdktest.ObserverOptions{
		New:     func(testing.TB) sdk.Observer { return &Curve{} },
		Options: map[string]any{"path": filepath.Join(t.TempDir(), "loss.csv")},
		Refused: map[string]map[string]any{"path": {"path": 7}},
	})
}
