package host_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// openHeld opens the fake data set with a tenth of its samples held out.
func openHeld(t *testing.T, d *host.Dataset, mode string, seed uint64) (spec sdk.DatasetSpec, train, validation []int) {
	t.Helper()
	d.Validation = 0.1
	t.Cleanup(func() { must(t, d.Close(context.WithoutCancel(t.Context()))) })
	options, problems := sdk.CheckOptions("dataset.options", d.Info().Options, map[string]any{"mode": mode})
	must(t, problems.Err())
	spec, err := d.Open(t.Context(), sdk.DatasetRequest{Options: options, WorldSize: 1, Seed: seed})
	must(t, err)
	equal(t, "sizes", [2]int{spec.TrainSamples, spec.TestSamples}, [2]int{90, 10})
	must(t, d.Prepare(1, 100))
	read := func(split sdk.Split, n, epoch int, wantEpoch float32) (samples []int) {
		indices := make([]int64, n)
		for i := range indices {
			indices[i] = int64(i)
		}
		must(t, d.Request(0, split, epoch, seed, indices))
		input, _, err := d.Wait(0)
		must(t, err)
		values := tensor.View[float32](input)
		for i := range n {
			samples = append(samples, int(values[2*i]))
			equal(t, "epoch", values[2*i+1], wantEpoch)
		}
		return samples
	}
	return spec, read(sdk.Train, 90, 4, 4), read(sdk.Test, 10, 4, -1)
}

// The held-out samples are read through the plugin, without augmentation; with the others they
// are all samples, once.
func TestValidationIsHeldOut(t *testing.T) {
	onEveryPlane(t, func(t *testing.T, h *host.Host, inside bool) {
		d := newDataset(t, h, inside)
		spec, train, validation := openHeld(t, d, "ok", 42)
		equal(t, "choice", spec.Validation, "stratified by class")
		all := slices.Sorted(slices.Values(slices.Concat(train, validation)))
		for i := range 100 {
			equal(t, "sample", all[i], i)
		}
		class0 := 0
		for _, i := range validation {
			if i%10 < 3 {
				class0++
			}
		}
		equal(t, "held-out samples of class 0", class0, 3)
		if err := d.Request(0, sdk.Test, 0, 0, []int64{10}); err == nil || !strings.Contains(err.Error(), "sample 10 of 10") {
			t.Errorf("an index outside of the split gives %v", err)
		}
	})
}

// Without classes the samples are those of
//
//	random_split(range(100), [0.9, 0.1], generator=torch.Generator().manual_seed(42))[1].indices
func TestValidationIsTorchsRandomSplit(t *testing.T) {
	d := newDataset(t, nil, true)
	spec, _, got := openHeld(t, d, "classless", 42)
	if want := []int{0, 14, 25, 28, 39, 49, 55, 64, 77, 92}; !slices.Equal(got, want) {
		t.Errorf("held out %v, want %v", got, want)
	}
	equal(t, "choice", spec.Validation, "not stratified: the data set gives no classes of its samples")
	other, _, _ := openHeld(t, newDataset(t, nil, true), "classless", 43)
	if spec.Fingerprint == other.Fingerprint || spec.Fingerprint == "abc" {
		t.Errorf("two divisions have the fingerprints %s and %s", spec.Fingerprint, other.Fingerprint)
	}
}

func TestValidationIsRefused(t *testing.T) {
	info := sdk.Info{Name: "text", Options: []sdk.Option{{Name: "validation"}}}
	err := host.CheckValidation(info, 0.1)
	if l := usererr.Problems(err); len(l) != 1 || l[0].Key != "dataset.validation" || !strings.Contains(l[0].Help, "dataset.options.validation") {
		t.Errorf("a data set that divides itself gives %v", err)
	}
	must(t, host.CheckValidation(info, 0))
	spec := sdk.DatasetSpec{TrainSamples: 9}
	if l := usererr.Problems(host.HoldOut(&spec, 0.1)); len(l) != 1 || l[0].Key != "dataset.validation" {
		t.Errorf("a share of less than a sample gives %v", l)
	}
	for _, v := range []float64{-0.1, 1} {
		c := host.DefaultDataset()
		c.Plugin, c.Validation = "mnist", v
		if l := c.Problems(); len(l) != 1 || l[0].Key != "validation" {
			t.Errorf("validation = %v gives %v", v, l)
		}
	}
}
