package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// validationKey is the key of the configuration that holds training samples out.
const validationKey = "dataset.validation"

// CheckValidation refuses to hold samples out of a data set with an option validation: it
// divides its data by a rule of its own.
func CheckValidation(info sdk.Info, fraction float64) error {
	own := slices.ContainsFunc(info.Options, func(o sdk.Option) bool { return o.Name == "validation" })
	if fraction > 0 && own {
		return usererr.Errorf(validationKey, "remove it and set dataset.options.validation", "the data set %q divides its data itself", info.Name)
	}
	return nil
}

// heldOut divides the training split of a data set into the samples that are trained on and
// those that take the place of its test split. Both are indices of the training split, in
// ascending order.
type heldOut struct{ train, validation []int64 }

// HoldOut changes the sizes of a data set that is not open to those with a share of its
// training samples held out.
func HoldOut(spec *sdk.DatasetSpec, fraction float64) error {
	n, err := sdk.HeldSamples(spec.TrainSamples, fraction)
	if err != nil {
		return err
	}
	spec.TrainSamples, spec.TestSamples, spec.TestBytes = spec.TrainSamples-n, n, 0
	return nil
}

// divide holds samples out and describes the result in spec.
func divide(spec *sdk.DatasetSpec, fraction float64, seed uint64, classes []int32) (*heldOut, error) {
	train, validation, err := sdk.HoldOut(spec.TrainSamples, fraction, seed, classes)
	if err == nil {
		err = HoldOut(spec, fraction)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case classes != nil:
		spec.Validation = "stratified by class"
	case spec.Classes == 0 || spec.Tokens() > 0:
		spec.Validation = "not stratified: a sample has no class"
	default:
		spec.Validation = "not stratified: the data set gives no classes of its samples"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s validation %v seed %d %s", spec.Fingerprint, fraction, seed, spec.Validation))
	spec.Fingerprint = "sha256:" + hex.EncodeToString(sum[:])
	return &heldOut{train, validation}, nil
}

// Origin returns the index in the training split of a test sample that is held out there. False:
// the test samples are the data set's own.
func (d *Dataset) Origin(index int64) (at int64, held bool) {
	if d.held == nil {
		return index, false
	}
	return d.held.validation[index], true
}

// find replaces indices of a split by those of the data set's training split, and reports
// whether they are of samples that are held out. Without a division it changes nothing.
func (h *heldOut) find(split sdk.Split, indices []int64) (held bool, err error) {
	if h == nil {
		return false, nil
	}
	part := h.train
	if split == sdk.Test {
		part = h.validation
	}
	for i, k := range indices {
		if k < 0 || k >= int64(len(part)) {
			return false, fmt.Errorf("sample %d of %d", k, len(part))
		}
		indices[i] = part[k]
	}
	return split == sdk.Test, nil
}
