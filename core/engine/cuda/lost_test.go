package cuda

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// doomed is a device with everything on it that a rank waits for.
type doomed struct {
	*Device
	mem     []byte // mirrored: two buckets
	first   tensor.Tensor
	staging plan.Staging
	updater plan.Updater
	shared  plan.Shared
	plan    *plan.Plan
	out     tensor.Tensor
	prog    *plan.Program
	said    []string
	free    []func() error
}

const bucketBytes = 4096

func doom(t *testing.T, limit time.Duration) *doomed {
	t.Helper()
	cudatest.Libraries(t, 1)
	d := &doomed{Device: must(Open(0, ""))}
	arena, other := must(shm.New("test", 2*bucketBytes)), must(shm.New("test", bucketBytes))
	d.mem = arena.Bytes()
	release, _, err := d.Mirror(d.mem)
	if err != nil {
		t.Fatal(err)
	}
	d.first = tensor.Of(tensor.F32, tensor.Shape{bucketBytes / 4}, d.mem[:bucketBytes])
	d.staging = must(d.NewStaging([][]byte{d.mem[:bucketBytes], d.mem[bucketBytes:]}))
	d.updater = must(d.Updater(plan.Rule{Name: "sgd"}, []plan.Slot{{Value: d.first, Weight: d.first, Grad: d.first}}))
	shared, _, err := d.MirrorShared(other.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	d.shared = shared
	spec := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{8}}
	d.out = tensor.New(spec.DType, spec.Shape...)
	step := plan.Step{Op: op.Cast, Layer: "copy", In: []plan.Operand{{Spec: spec, Place: plan.PlaceInput}}, Out: []plan.Operand{{Spec: spec, Place: plan.PlaceState}}}
	d.plan = plan.Assemble(plan.Parts{Batch: 8, DType: spec.DType, State: []tensor.Spec{spec}, Steps: []plan.Step{step}, Input: spec})
	d.prog = must(d.plan.Bind(d, plan.State{Tensors: []tensor.Tensor{d.out}}))
	d.Watch(Watch{Owner: "rank 3", Timeout: limit, Slow: func(what string) { d.said = append(d.said, what) }})
	d.free = []func() error{d.prog.Close, d.staging.Close, d.updater.Close, d.shared.Close, release}
	return d
}

// end checks that a lost device fails every call with one error, and that
// nothing that frees it waits for it.
func (d *doomed) end(t *testing.T, got error) {
	t.Helper()
	var lost *gpu.LostError
	if !errors.As(got, &lost) {
		t.Fatalf("the device is not lost: %v", got)
	}
	select {
	case <-d.Over():
	default:
		t.Error("nobody is told that the device is lost")
	}
	for name, err := range map[string]error{
		"Lost": d.Lost(), "Upload": d.Upload(d.mem), "Download": d.Download(d.mem), "Clear": d.Clear(d.mem), "Scale": d.Scale(d.first, 2),
		"Prefetch": d.Prefetch(d.mem, nil), "Fetch": d.staging.Fetch(0), "Store": d.staging.Store(0), "Step": d.updater.Step(1, 1, []int64{1}),
		"Run": d.prog.Run(plan.Args{Input: d.mem[:32]}).Err,
	} {
		if !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, f := range d.free {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "GPU 0 (GPU-00000000-0000-0000-0000-000000000001) is not released") {
		t.Errorf("closing says %v", err)
	}
}

// Wherever a rank waits for its GPU, work that never ends is an error after the device's timeout,
// which names GPU and work.
func TestEveryWaitEnds(t *testing.T) {
	const limit = 200 * time.Millisecond
	for name, c := range map[string]struct {
		trouble string
		wait    func(d *doomed) error
		want    string
	}{
		"a run": {"hang cast", func(d *doomed) error { return d.prog.Run(plan.Args{Input: d.mem[:32]}).Err }, "the pass over a batch from copy (cast) to copy (cast)"},
		"a bucket on its way to the host": {"hang cuMemcpyDtoHAsync", func(d *doomed) error {
			err := d.staging.Fetch(1)
			if err == nil {
				_, err = d.staging.Fetched(1, true)
			}
			return err
		}, "the gradients of bucket 1 and their copy to the host"},
		"a bucket whose gradients are never done": {"hang scale", func(d *doomed) error {
			err := errors.Join(d.Scale(d.first, 2), d.staging.Fetch(0))
			if err == nil {
				_, err = d.staging.Fetched(0, true)
			}
			return err
		}, "the gradients of bucket 0"},
		"a batch on its way": {"hang cuMemcpyHtoDAsync", func(d *doomed) error {
			if err := d.Prefetch(d.mem[:32], nil); err != nil {
				return err
			}
			e := must(d.Bind(d.plan, plan.State{Tensors: []tensor.Tensor{d.out}}))
			var c plan.Call
			c.Input = d.mem[:32]
			e.Step(0, &c)
			return errors.Join(c.Err, d.WaitPrefetched())
		}, "the copy of a batch to the GPU"},
		"a norm": {"hang square_sums", func(d *doomed) error {
			_, err := d.updater.SquareSum()
			return err
		}, "the gradients' norm"},
		"a checkpoint": {"hang sgd_update", func(d *doomed) error {
			if err := d.updater.Step(1, 1, []int64{1}); err != nil {
				return err
			}
			return d.Download(d.mem)
		}, "what was enqueued"},
		"a download":      {"hang cuMemcpyDtoHAsync", func(d *doomed) error { return d.Download(d.mem) }, "a copy of the GPU's memory to the host"},
		"an upload":       {"hang cuMemcpyHtoDAsync", func(d *doomed) error { return d.Upload(d.mem) }, "a copy of the host's memory to the GPU"},
		"exported memory": {"hang scale", func(d *doomed) error { return errors.Join(d.Scale(d.first, 2), d.shared.Close()) }, "what works on exported memory"},
	} {
		t.Run(name, func(t *testing.T) {
			d := doom(t, limit)
			t.Setenv("CUDA_FAKE_TROUBLE", c.trouble)
			err := c.wait(d)
			want := "rank 3's GPU 0 (GPU-00000000-0000-0000-0000-000000000001) does not answer: " + c.want
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "took more than 200ms (run.device_timeout)") {
				t.Errorf("want %q, got %v", want, err)
			}
			if len(d.said) != 1 || !strings.Contains(d.said[0], "a long wait for rank 3's GPU 0 (GPU-00000000-0000-0000-0000-000000000001): "+c.want) {
				t.Errorf("said of a long wait: %q", d.said)
			}
			d.end(t, err)
		})
	}
}

// Buckets in exported memory without shared events are waited for, too.
func TestWaitWithoutEventsEnds(t *testing.T) {
	t.Setenv("CUDA_FAKE_NO_EVENTS", "1")
	d := doom(t, 200*time.Millisecond)
	t.Setenv("CUDA_FAKE_TROUBLE", "hang scale")
	if err := d.Scale(d.first, 2); err != nil {
		t.Fatal(err)
	}
	_, _, err := d.shared.Written()
	if err == nil || !strings.Contains(err.Error(), "the gradients of a bucket") {
		t.Error(err)
	}
	d.end(t, err)
}

// Codes that spoil the context end everything at once, with their meaning and
// where they were seen; nothing is tried again.
func TestFaultsLoseTheDevice(t *testing.T) {
	d := doom(t, time.Minute)
	t.Setenv("CUDA_FAKE_TROUBLE", "700 scale")
	if err := d.Scale(d.first, 2); err != nil {
		t.Fatal(err) // it is reported later
	}
	err := d.staging.Fetch(0)
	if err == nil {
		_, err = d.staging.Fetched(0, true)
	}
	for _, want := range []string{"rank 3's GPU 0", "CUDA_ERROR_ILLEGAL_ADDRESS: a kernel read or wrote memory outside its allocations", "reported by the gradients of bucket 0", "earlier work may have caused it"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if !errors.Is(err, driver.IllegalAddress) {
		t.Errorf("%v hides the code", err)
	}
	d.end(t, err)
}

// Memory that is not there is named with its size and purpose, and the device
// works on.
func TestOutOfMemory(t *testing.T) {
	d := doom(t, time.Minute)
	t.Setenv("CUDA_FAKE_MEMORY", "315000000")
	_, _, err := d.Mirror(make([]byte, 10<<20))
	for _, want := range []string{"rank 3's GPU 0", "out of memory for weights, gradients or the optimizer's state: 10 MiB requested", "of 300.4 MiB free", "lower train.per_rank_batch"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if err := errors.Join(d.Lost(), d.Download(d.mem)); err != nil {
		t.Error(err)
	}
	for _, f := range append(d.free, d.Close) {
		if err := f(); err != nil {
			t.Error(err)
		}
	}
}

// A call of the driver that never returns loses the device.
func TestCallThatNeverReturns(t *testing.T) {
	d := doom(t, 200*time.Millisecond)
	t.Setenv("CUDA_FAKE_TROUBLE", "block scale")
	go func() { _ = d.Scale(d.first, 2) }() // for good
	<-d.Over()
	err := d.Lost()
	if err == nil || !strings.Contains(err.Error(), "does not answer: a call of the driver took more than 200ms") {
		t.Error(err)
	}
	d.end(t, err)
}
