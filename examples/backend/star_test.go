package main

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	sdktest.Backend(t, sdktest.BackendOptions{
		New:    func(testing.TB) sdk.Backend { return &Star{} },
		Worlds: []int{1, 2, 3, 5},
		Counts: []int{0, 1, 3, 1000, 65537, 150_000}, // trainctl plugins test has larger buffers
	})
}
