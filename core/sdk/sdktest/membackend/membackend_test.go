package membackend_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
)

func TestBackend(t *testing.T) {
	w := membackend.NewWorld()
	sdktest.Backend(t, sdktest.BackendOptions{New: func(testing.TB) sdk.Backend { return w.New() }})
}
