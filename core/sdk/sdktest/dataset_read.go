package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// slot is memory for a batch with guard bytes on both sides of both slices. Guards and
// slices are filled with one byte.
type slot struct {
	spec          sdk.DatasetSpec
	n             int
	poison        byte
	input, target []byte // with guards
}

const guard = 64

func newSlot(spec sdk.DatasetSpec, n int, poison byte) *slot {
	s := &slot{spec: spec, n: n, poison: poison}
	s.input = poisoned(n*spec.Input.Bytes(), poison)
	s.target = poisoned(n*spec.Target.Bytes(), poison)
	return s
}

func poisoned(n int, poison byte) []byte {
	b := tensor.Aligned(n + 2*guard)
	for i := range b {
		b[i] = poison
	}
	return b
}

func inner(b []byte) []byte { return b[guard : len(b)-guard : len(b)-guard] }

func (s *slot) batch(split sdk.Split, epoch int, indices []int64) *sdk.Batch {
	return &sdk.Batch{Split: split, Epoch: epoch, Seed: suiteSeed, Indices: indices, Input: inner(s.input), Target: inner(s.target)}
}

// intact reports the first guard byte that was written.
func (s *slot) intact() error {
	for name, b := range map[string][]byte{"Input": s.input, "Target": s.target} {
		for i := range guard {
			if b[i] != s.poison {
				return fmt.Errorf("wrote %d bytes before %s", guard-i, name)
			}
			if end := len(b) - guard + i; b[end] != s.poison {
				return fmt.Errorf("wrote %d bytes behind %s", i+1, name)
			}
		}
	}
	return nil
}

// sum identifies the content of sample i: input and target.
func (s *slot) sum(i int) uint64 {
	in, tg := s.spec.Input.Bytes(), s.spec.Target.Bytes()
	table := crc64.MakeTable(crc64.ECMA) // which is made once
	h := crc64.Update(0, table, inner(s.input)[i*in:(i+1)*in])
	return crc64.Update(h, table, inner(s.target)[i*tg:(i+1)*tg])
}

// fill reads indices into a fresh slot and checks the guards.
func (d *opened) fill(ctx context.Context, split sdk.Split, epoch int, indices []int64, poison byte) (*slot, error) {
	s := newSlot(d.spec, len(indices), poison)
	asked := slices.Clone(indices)
	if err := d.Fill(ctx, s.batch(split, epoch, indices)); err != nil {
		return nil, fmt.Errorf("Fill of %d samples of split %d: %w", len(indices), split, err)
	}
	if !slices.Equal(asked, indices) {
		return nil, errors.New("Fill changed the indices")
	}
	return s, s.intact()
}

// plausible checks that numbers are finite, and indices and classes in range.
func (s *slot) plausible(first int64) error {
	input := inRange{what: "input element", limit: s.spec.Vocabulary}
	if err := input.check(s.spec.Input, inner(s.input), first); err != nil {
		return err
	}
	target := inRange{what: "target", limit: s.spec.Classes, ignored: true}
	return target.check(s.spec.Target, inner(s.target), first)
}

// inRange is what the elements of an input or a target may be: finite numbers, or indices
// below a limit.
type inRange struct {
	what    string
	limit   int
	ignored bool // an index may be sdk.IgnoreIndex
}

func (r *inRange) check(spec tensor.Spec, data []byte, first int64) error {
	each := spec.Shape.Elems()
	fail := func(i int, v any) error {
		return fmt.Errorf("sample %d: %s %d is %v", first+int64(i/each), r.what, i%each, v)
	}
	if spec.DType == tensor.F32 {
		for i, v := range tensor.View[float32](data) {
			if !finite(v) {
				return fail(i, v)
			}
		}
		return nil
	}
	for i, v := range tensor.View[int32](data) {
		if (v < 0 || int(v) >= r.limit) && !(r.ignored && v == sdk.IgnoreIndex) {
			return fmt.Errorf("%w, which is not in 0..%d", fail(i, v), r.limit-1)
		}
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// sums are the samples of a split from 0 on.
type sums [2][]uint64

func (a sums) equal(b sums) error {
	for split := range a {
		for i := range a[split] {
			if a[split][i] != b[split][i] {
				return fmt.Errorf("sample %d of split %d differs", i, split)
			}
		}
	}
	return nil
}

func (d *opened) sizes() [2]int { return [2]int{d.spec.TrainSamples, d.spec.TestSamples} }

// readSome reads both splits forwards in batches, up to a limit (0 = all).
func readSome(ctx context.Context, d *opened, limit int) (all sums, err error) {
	for split, n := range d.sizes() {
		if limit > 0 {
			n = min(n, limit)
		}
		for from := 0; from < n; from += 64 {
			s, err := d.fill(ctx, sdk.Split(split), 0, sequence(from, min(from+64, n)), 0)
			if err != nil {
				return all, err
			}
			if err := s.plausible(int64(from)); err != nil {
				return all, fmt.Errorf("split %d: %w", split, err)
			}
			for i := range s.n {
				all[split] = append(all[split], s.sum(i))
			}
		}
	}
	return all, nil
}

func sequence(from, to int) []int64 {
	s := make([]int64, to-from)
	for i := range s {
		s[i] = int64(from + i)
	}
	return s
}

func checkEverySample(ctx context.Context, s *datasetSuite) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	if _, err := readSome(ctx, d, s.Samples); err != nil {
		return err
	}
	for split, n := range d.sizes() {
		if n > 0 {
			if _, err := d.fill(ctx, sdk.Split(split), 0, []int64{int64(n - 1)}, 0); err != nil {
				return fmt.Errorf("the last sample: %w", err)
			}
		}
		if _, err := d.fill(ctx, sdk.Split(split), 0, nil, 0); err != nil {
			return fmt.Errorf("an empty batch: %w", err)
		}
	}
	return nil
}

// checkComposition compares samples read in order with the same samples read by another
// instance in random batches with repetitions.
func checkComposition(ctx context.Context, s *datasetSuite) error {
	a, b, err := s.openTwo(ctx)
	if err != nil {
		return err
	}
	limit := s.Samples
	if limit == 0 {
		limit = 1000
	}
	want, err := readSome(ctx, a, limit)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(suiteSeed, 1))
	for _, size := range []int{1, 2, 3, 64, 7, 129, 1} {
		for split := range want {
			if err := b.readRandom(ctx, r, sdk.Split(split), want[split], size); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *opened) readRandom(ctx context.Context, r *rand.Rand, split sdk.Split, want []uint64, size int) error {
	if len(want) == 0 {
		return nil
	}
	indices := make([]int64, size)
	for i := range indices {
		indices[i] = r.Int64N(int64(len(want)))
	}
	indices[size/2] = indices[0] // a repetition, as in a sampler's padding
	s, err := d.fill(ctx, split, 0, indices, 0xaa)
	if err != nil {
		return err
	}
	for i, index := range indices {
		if s.sum(i) != want[index] {
			return fmt.Errorf("sample %d of split %d differs between batches", index, split)
		}
	}
	return nil
}

// checkEpochs checks that each epoch is reproducible. Epochs may differ (augmentation).
func checkEpochs(ctx context.Context, s *datasetSuite) error {
	a, b, err := s.openTwo(ctx)
	if err != nil {
		return err
	}
	some := sequence(0, min(16, a.spec.TrainSamples))
	forwards, err := a.epochs(ctx, some, 0, 1, 2, 3)
	if err != nil {
		return err
	}
	backwards, err := b.epochs(ctx, some, 3, 2, 1, 0)
	if err != nil {
		return err
	}
	for epoch, want := range forwards {
		if !slices.Equal(want, backwards[epoch]) {
			return fmt.Errorf("epoch %d differs when it is read after other epochs", epoch)
		}
	}
	return nil
}

func (d *opened) epochs(ctx context.Context, indices []int64, epochs ...int) (map[int][]uint64, error) {
	out := map[int][]uint64{}
	for _, e := range epochs {
		s, err := d.fill(ctx, sdk.Train, e, indices, 0)
		if err != nil {
			return nil, err
		}
		for i := range s.n {
			out[e] = append(out[e], s.sum(i))
		}
	}
	return out, nil
}

// checkValidation reads training samples as the host does for `[dataset] validation`: alike in
// every epoch, and of the classes that stratify them.
func checkValidation(ctx context.Context, s *datasetSuite) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	indices := sequence(0, min(64, d.spec.TrainSamples))
	first, second := newSlot(d.spec, len(indices), 0), newSlot(d.spec, len(indices), 0)
	for epoch, slot := range []*slot{first, second} {
		b := slot.batch(sdk.Train, epoch, indices)
		b.NoAugment = true
		if err := d.Fill(ctx, b); err != nil {
			return fmt.Errorf("Fill with NoAugment: %w", err)
		}
	}
	for i := range indices {
		if first.sum(i) != second.sum(i) {
			return fmt.Errorf("sample %d differs between epochs, though the batch has NoAugment", i)
		}
	}
	known, ok := d.Dataset.(*timedDataset).Dataset.(sdk.DatasetClasses)
	if !ok || d.spec.Target.DType != tensor.I32 || len(d.spec.Target.Shape) > 0 {
		return nil
	}
	classes := known.TrainClasses()
	if n := len(classes); n != d.spec.TrainSamples {
		return fmt.Errorf("TrainClasses gives the classes of %d samples, the data set has %d", n, d.spec.TrainSamples)
	}
	for i, class := range tensor.View[int32](inner(first.target)) {
		if class != classes[i] {
			return fmt.Errorf("sample %d has the class %d, and TrainClasses says %d", i, class, classes[i])
		}
	}
	return nil
}

// checkMemory fills slots with different old content: equal results mean that
// every byte was written and none was read.
func checkMemory(ctx context.Context, s *datasetSuite) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	for split, n := range d.sizes() {
		indices := sequence(0, min(5, n))
		a, err := d.fill(ctx, sdk.Split(split), 0, indices, 0x00)
		if err != nil {
			return err
		}
		b, err := d.fill(ctx, sdk.Split(split), 0, indices, 0xff)
		if err != nil {
			return err
		}
		for i := range a.n {
			if a.sum(i) != b.sum(i) {
				return fmt.Errorf("sample %d of split %d depends on the old content of the slot, or is not written completely", i, split)
			}
		}
	}
	return nil
}

// checkAliasing overwrites a slot after Fill: the plugin must neither read it nor write
// to it later.
func checkAliasing(ctx context.Context, s *datasetSuite) error {
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	indices := sequence(0, min(4, d.spec.TrainSamples))
	first, err := d.fill(ctx, sdk.Train, 0, indices, 0)
	if err != nil {
		return err
	}
	want := first.sum(0)
	for _, b := range [][]byte{first.input, first.target} {
		for i := range b {
			b[i] = 0x5a
		}
	}
	before := slices.Concat(first.input, first.target)
	second, err := d.fill(ctx, sdk.Train, 0, slices.Clone(indices), 0)
	if err != nil {
		return err
	}
	if second.sum(0) != want {
		return errors.New("a sample changed after the slot that it was read into was overwritten")
	}
	if !bytes.Equal(before, slices.Concat(first.input, first.target)) {
		return errors.New("Fill wrote to the slot of an earlier batch")
	}
	return nil
}
