package sdk

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// HeldSamples is how many of n training samples `[dataset] validation` holds out, rounded as
// torch.utils.data.random_split rounds: the remainder is trained on.
func HeldSamples(n int, fraction float64) (int, error) {
	held := int(float64(n) * fraction)
	if held == 0 {
		return 0, usererr.Errorf("dataset.validation", "raise it, or remove it", "%v of %d training samples is less than one", fraction, n)
	}
	return held, nil
}

// HoldOut divides n training samples into those that are trained on and those that `[dataset]
// validation` holds out, both in ascending order. The choice depends on the seed, the number of
// samples and their classes alone: samples are taken from the end of torch.randperm, as
// random_split([1 - fraction, fraction]) takes them, and of each class as many as its share. Without
// classes (nil) they are taken whatever their class.
func HoldOut(n int, fraction float64, seed uint64, classes []int32) (train, validation []int64, err error) {
	if len(classes) != 0 && len(classes) != n {
		return nil, nil, fmt.Errorf("the plugin gives the classes of %d training samples and has %d", len(classes), n)
	}
	total, err := HeldSamples(n, fraction)
	if err != nil {
		return nil, nil, err
	}
	if classes == nil {
		classes = make([]int32, n)
	}
	left, held := shares(classes, total), make([]bool, n)
	order := rng.NewMT(seed).Perm(n)
	for _, i := range slices.Backward(order) {
		if c := classes[i]; left[c] > 0 {
			left[c]--
			held[i] = true
		}
	}
	for i, out := range held {
		if out {
			validation = append(validation, int64(i))
		} else {
			train = append(train, int64(i))
		}
	}
	return train, validation, nil
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
