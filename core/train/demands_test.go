package train

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// narrowed publishes only what is asked for.
func narrowed(b host.Collectives, calls []ddp.Call) host.Collectives {
	return only{b, calls}
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

// Submit holds the run to what is published, as the host does with a plugin's.
func (o only) Submit(c *sdk.Collective) (uint64, error) {
	info := o.Info()
	if !info.Does(c.Op, c.DType) {
		return 0, errors.New("not published: " + c.String())
	}
	return o.Collectives.Submit(c)
}

func TestBackendsThatOfferTooLittle(t *testing.T) {
	every := []sdk.Op{sdk.OpAllReduce, sdk.OpBroadcast, sdk.OpAllGather}
	floats := []tensor.DType{tensor.F32, tensor.F64}
	for _, c := range []struct {
		name   string
		info   sdk.Info
		change func(*ddp.Config)
		key    string // "": the plugin's own fault
		want   string
	}{
		{"compression", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}}, func(c *ddp.Config) { c.Compress = "bf16" },
			"ddp.compress", "does not offer all_reduce of bf16 (gradients); it offers all_reduce broadcast all_gather, and reductions of f32 f64"},
		{"unused parameters", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}}, func(c *ddp.Config) { c.FindUnusedParameters = true },
			"ddp.find_unused_parameters", "all_reduce of i32"},
		{"measuring", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}}, func(c *ddp.Config) { c.BucketCapMB = ddp.AutoCap },
			"ddp.bucket_cap_mb", "barrier"},
		{"device", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cuda"}}, nil, "run.device", "supports ranks on cuda, but this job computes on cpu"},
		{"ranks", sdk.Info{Ops: every, DTypes: floats, Devices: []string{"cpu"}, MaxWorld: 1}, nil, "backend.plugin", "at most 1 ranks"},
		{"broadcast", sdk.Info{Ops: every[:1], DTypes: floats, Devices: []string{"cpu"}}, nil, "", "every run needs broadcast (weights and buffers), all_gather"},
		{"doubles", sdk.Info{Ops: every, DTypes: floats[:1], Devices: []string{"cpu"}}, nil, "", "every run needs all_reduce of f64 (totals of a step)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := ddp.Default()
			if c.change != nil {
				c.change(&cfg)
			}
			err := CheckBackend(c.info, 2, "cpu", cfg.Calls([]tensor.DType{tensor.F32}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v does not say %q", err, c.want)
			}
			var unusable *host.StartError
			l := usererr.Problems(err)
			if c.key == "" && !errors.As(err, &unusable) || c.key != "" && !slices.ContainsFunc(l, func(p usererr.Problem) bool { return p.Key == c.key && p.Help != "" }) {
				t.Errorf("%T %v, want a problem of %q", err, err, c.key)
			}
			if err := CheckBackend(c.info, 1, "cpu", nil); err != nil {
				t.Errorf("one rank asks for nothing: %v", err)
			}
		})
	}
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
	const init = 2 * time.Second
	errs := onRanks(t, 2, func(rank int, d *Deps) {
		d.Settings.BackendInit = init
		if rank == 1 {
			d.Dataset = slowOpening{d.Dataset, init + init/2}
		}
	}, trainToTheEnd)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
