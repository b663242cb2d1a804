package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/rng"
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
	n, err := heldSamples(spec.TrainSamples, fraction)
	if err != nil {
		return err
	}
	spec.TrainSamples, spec.TestSamples, spec.TestBytes = spec.TrainSamples-n, n, 0
	return nil
}

// heldSamples is how many of n samples are held out, rounded as torch.utils.data.random_split
// rounds: the remainder is trained on.
func heldSamples(n int, fraction float64) (int, error) {
	held := int(float64(n) * fraction)
	if held == 0 {
		return 0, usererr.Errorf(validationKey, "raise it, or remove it", "%v of %d training samples is less than one", fraction, n)
	}
	return held, nil
}

// divide holds samples out and describes the result in spec. The choice depends on the seed,
// the number of samples and their classes alone: samples are taken from the end of
// torch.randperm, as random_split([1 - fraction, fraction]) takes them, and of each class as
// many as its share.
func divide(spec *sdk.DatasetSpec, fraction float64, seed uint64, classes []int32) (*heldOut, error) {
	n := spec.TrainSamples
	if len(classes) != 0 && len(classes) != n {
		return nil, fmt.Errorf("the plugin gives the classes of %d training samples and has %d", len(classes), n)
	}
	if err := HoldOut(spec, fraction); err != nil {
		return nil, err
	}
	spec.Validation = "stratified by class"
	if classes == nil {
		classes = make([]int32, n)
		spec.Validation = "not stratified: the data set gives no classes of its samples"
		if spec.Classes == 0 || spec.Tokens() > 0 {
			spec.Validation = "not stratified: a sample has no class"
		}
	}
	left, held := shares(classes, spec.TestSamples), make([]bool, n)
	order := rng.NewMT(seed).Perm(n)
	for _, i := range slices.Backward(order) {
		if c := classes[i]; left[c] > 0 {
			left[c]--
			held[i] = true
		}
	}
	h := &heldOut{}
	for i, out := range held {
		if out {
			h.validation = append(h.validation, int64(i))
		} else {
			h.train = append(h.train, int64(i))
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s validation %v seed %d %s", spec.Fingerprint, fraction, seed, spec.Validation))
	spec.Fingerprint = "sha256:" + hex.EncodeToString(sum[:])
	return h, nil
}

// shares is how many of held samples come from each class, in proportion to its size. What
// rounding down leaves over goes to the largest remainders, of equal ones to the lowest class.
func shares(classes []int32, held int) map[int32]int {
	sizes, out := map[int32]int{}, map[int32]int{}
	for _, c := range classes {
		sizes[c]++
	}
	remainder := func(c int32) int { return sizes[c] * held % len(classes) }
	var order []int32
	left := held
	for c, n := range sizes {
		out[c] = n * held / len(classes)
		left -= out[c]
		order = append(order, c)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(remainder(b), remainder(a)), cmp.Compare(a, b))
	})
	for _, c := range order[:left] {
		out[c]++
	}
	return out
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
