package main

import (
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestContract(t *testing.T) {
	sdktest.Backend(t, sdktest.BackendOptions{
		New:    func(testing.TB) sdk.Backend { return &Star{} },
		Worlds: []int{1, 2, 3},
		Counts: []int{0, 1, 1000}, // seconds; trainctl plugins test has more ranks and sizes
	})
}
