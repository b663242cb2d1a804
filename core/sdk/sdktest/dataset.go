package sdktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// DatasetOptions say what the dataset suite runs on.
type DatasetOptions struct {
	// New returns an instance that is not open yet, in this process or, with
	// [DatasetPlugin], in another.
	New func(t testing.TB) sdk.Dataset

	// Options is the plugin's table as a user would write it. It should give
	// data that is small and needs no network.
	Options map[string]any

	// Refused are tables that must be refused, by the key that the error must
	// name. Missing keys are taken from Options.
	Refused map[string]map[string]any

	// Samples bounds how many samples of a split are read one by one; 0 = all.
	Samples int

	// Timeout bounds each check, which may make thousands of calls; default 3 minutes.
	Timeout time.Duration

	// CallTimeout bounds each call; default 30 s.
	CallTimeout time.Duration
}

// Dataset runs the conformance suite for data sets, see [sdk.Dataset].
func Dataset(t *testing.T, o DatasetOptions) {
	t.Helper()
	runChecks(t, o.Timeout, datasetChecks, func(t testing.TB) *datasetSuite { return &datasetSuite{DatasetOptions: o, t: t} })
}

var datasetChecks = []suiteCheck[*datasetSuite]{
	{"Info is complete", checkInfo},
	{"names the key of a wrong option", checkRefused},
	{"DatasetSpec is valid", checkSpec},
	{"reads the same data on all ranks", checkRanks},
	{"reads every sample", checkEverySample},
	{"reads a sample alike in every batch", checkComposition},
	{"reads an epoch again with equal data", checkEpochs},
	{"reads validation without augmentation", checkValidation},
	{"writes only inside the slot", checkMemory},
	{"keeps no reference to a slot", checkAliasing},
	{"closes in every state", checkClose},
}

// datasetSuite is one check's view of the plugin.
type datasetSuite struct {
	DatasetOptions
	processes
	t testing.TB
}

// instance returns a new instance with bounded calls.
func (s *datasetSuite) instance(rank int) sdk.Dataset {
	d, call := s.New(s.t), orDefault(s.CallTimeout, stepTimeout)
	if r, ok := d.(*remoteDataset); ok {
		r.plugin.Timeout = call // the host reports where it hangs
		s.add(rank, r.log)
		call += hostMargin
	}
	return &timedDataset{Dataset: d, timed: timed{limit: call}}
}

const suiteSeed = 42

// opened is an open instance with its specification.
type opened struct {
	sdk.Dataset
	spec sdk.DatasetSpec
}

func (s *datasetSuite) open(ctx context.Context) (*opened, error) {
	return s.openRank(ctx, 0, 1)
}

// openTwo opens two instances of rank 0.
func (s *datasetSuite) openTwo(ctx context.Context) (a, b *opened, err error) {
	if a, err = s.open(ctx); err != nil {
		return nil, nil, err
	}
	if b, err = s.open(ctx); err != nil {
		return nil, nil, fmt.Errorf("a second time: %w", err)
	}
	return a, b, nil
}

func (s *datasetSuite) openRank(ctx context.Context, rank, world int) (*opened, error) {
	d := s.instance(rank)
	s.t.Cleanup(func() { _ = d.Close() })
	options, problems := sdk.CheckOptions("dataset.options", d.Info().Options, s.Options)
	if err := problems.Err(); err != nil {
		return nil, fmt.Errorf("DatasetOptions.Options are not valid: %w", err)
	}
	spec, err := d.Open(ctx, request(options, rank, world))
	if err != nil {
		return nil, fmt.Errorf("Open on rank %d of %d: %w", rank, world, err)
	}
	return &opened{d, spec}, nil
}

func request(o sdk.Options, rank, world int) sdk.DatasetRequest {
	return sdk.DatasetRequest{Options: o, Rank: rank, LocalRank: rank, WorldSize: world, Seed: suiteSeed,
		Log: slog.New(slog.DiscardHandler)}
}

func checkRefused(ctx context.Context, s *datasetSuite) error {
	return refused(s.Refused, func(table map[string]any) error { return s.openTable(ctx, table) })
}

// refused checks that every table is refused, with the key in a usererr.Problem or
// in the text, and that an unknown key is refused.
func refused(tables map[string]map[string]any, open func(table map[string]any) error) error {
	var all []error
	for key, table := range tables {
		if err := open(table); err == nil {
			all = append(all, fmt.Errorf("options %v were accepted", table))
		} else if !namesKey(err, key) {
			all = append(all, fmt.Errorf("options %v: the error does not name %q: %w", table, key, err))
		}
	}
	if err := open(map[string]any{"no_such_option": true}); err == nil {
		all = append(all, errors.New("an unknown option was accepted"))
	}
	return errors.Join(all...)
}

func (s *datasetSuite) openTable(ctx context.Context, table map[string]any) error {
	d := s.instance(0)
	defer d.Close()
	options, problems := sdk.CheckOptions("", d.Info().Options, merged(s.Options, table))
	if err := problems.Err(); err != nil {
		return err
	}
	_, err := d.Open(ctx, request(options, 0, 1))
	return err
}

// merged returns a table with the keys of another added or replaced.
func merged(table, over map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, table)
	maps.Copy(out, over)
	return out
}

func namesKey(err error, key string) bool {
	for _, p := range usererr.Problems(err) {
		if strings.TrimPrefix(p.Key, ".") == key {
			return true
		}
	}
	return strings.Contains(err.Error(), key)
}

// checkRanks opens three ranks at the same time.
func checkRanks(ctx context.Context, s *datasetSuite) error {
	const world = 3
	ranks, err := openAtOnce(ctx, s, world)
	if err != nil {
		return err
	}
	first, err := readSome(ctx, ranks[0], s.Samples)
	if err != nil {
		return err
	}
	for r := 1; r < world; r++ {
		if diff := difference(ranks[0].spec, ranks[r].spec); diff != "" {
			return fmt.Errorf("ranks 0 and %d have different specifications:\n%s", r, diff)
		}
		other, err := readSome(ctx, ranks[r], s.Samples)
		if err != nil {
			return err
		}
		if err := first.equal(other); err != nil {
			return fmt.Errorf("ranks 0 and %d: %w", r, err)
		}
	}
	return nil
}

func openAtOnce(ctx context.Context, s *datasetSuite, world int) ([]*opened, error) {
	ranks, errs := make([]*opened, world), make([]error, world)
	done := make(chan struct{})
	for r := range world {
		go func() {
			ranks[r], errs[r] = s.openRank(ctx, r, world)
			done <- struct{}{}
		}()
	}
	for range world {
		<-done
	}
	return ranks, errors.Join(errs...)
}

func checkClose(ctx context.Context, s *datasetSuite) error {
	if err := s.instance(0).Close(); err != nil {
		return fmt.Errorf("Close before Open: %w", err)
	}
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err := closesTwice(d); err != nil {
		return err
	}
	slot := newSlot(d.spec, 1, 0)
	if err := d.Fill(ctx, slot.batch(sdk.Train, 0, []int64{0})); err == nil {
		return errors.New("Fill after Close gave no error")
	}
	return nil
}
