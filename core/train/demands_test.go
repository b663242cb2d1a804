package train

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// A run makes no collective that Calls does not list: with a backend that
// publishes these and no other it gets through. The host refuses any other.
func TestCallsAreAllThatARunAsksFor(t *testing.T) {
	for name, change := range map[string]func(*ddp.Config){
		"default":  func(*ddp.Config) {},
		"fp16":     func(c *ddp.Config) { c.Compress = "fp16" },
		"bf16":     func(c *ddp.Config) { c.Compress = "bf16" },
		"powersgd": func(c *ddp.Config) { c.Compress, c.PowerSGDStart = "powersgd", 1 },
		"unused":   func(c *ddp.Config) { c.FindUnusedParameters = true },
		"sync":     func(c *ddp.Config) { c.SyncBatchNorm = true },
		"join":     func(c *ddp.Config) { c.Uneven = ddp.UnevenJoin },
		"auto":     func(c *ddp.Config) { c.BucketCapMB = ddp.AutoCap },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := onRanks(t, 2, func(_ int, d *Deps) {
				change(&d.Settings.DDP)
				d.Settings.Train.EvalEvery = 1
				d.Backend = narrowed(d.Backend, d.Settings.DDP.Calls([]tensor.DType{tensor.F32}))
			}, trainToTheEnd)
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}

// narrowed publishes only what is asked for, and holds the run to it, as the host does with
// a plugin's.
func narrowed(b host.Collectives, calls []ddp.Call) host.Collectives {
	o := only{b, calls}
	return only{tapped{b, func(c *sdk.Collective) error {
		if info := o.Info(); !info.Does(c.Op, c.DType) {
			return errors.New("not published: " + c.String())
		}
		return nil
	}}, calls}
}

type only struct {
	host.Collectives
	calls []ddp.Call
}

func (o only) Info() sdk.Info {
	i := o.Collectives.Info()
	i.Ops, i.DTypes = nil, nil
	for _, c := range o.calls {
		i.Ops = append(i.Ops, c.Op)
		if c.Op == sdk.OpAllReduce {
			i.DTypes = append(i.DTypes, c.DType)
		}
	}
	return i
}

// Setup refuses before the first collective, on every rank.
func TestSetupRefusesWhatTheBackendDoesNotOffer(t *testing.T) {
	errs := onRanks(t, 2, func(_ int, d *Deps) {
		d.Backend = narrowed(d.Backend, ddp.Default().Calls([]tensor.DType{tensor.F32}))
		d.Settings.DDP.Compress = "fp16"
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err == nil {
			err = tr.Close()
		}
		return err
	})
	for r, err := range errs {
		if l := usererr.Problems(err); len(l) != 1 || l[0].Key != "ddp.compress" {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// slowOpening is a data set that takes its time to open on one rank.
type slowOpening struct {
	host.Batches
	takes time.Duration
}

func (s slowOpening) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	select {
	case <-time.After(s.takes): // as files take that are fetched
	case <-ctx.Done():
		return sdk.DatasetSpec{}, context.Cause(ctx)
	}
	return s.Batches.Open(ctx, req)
}

// Opening the data has dataset.timeout, and not what the rest of the set-up has;
// ranks whose data are there wait for the others.
func TestOpeningDataHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	const init = 10 * time.Second // what the rest of the set-up has to take less than, on a busy machine too
	errs := onRanks(t, 2, func(rank int, d *Deps) {
		d.Settings.BackendInit = init
		if rank == 1 {
			d.Dataset = slowOpening{d.Dataset, init + init/5}
		}
	}, trainToTheEnd)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
