package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

var machine = Machine{GFLOPS: 100, Caches: []Bandwidth{{Bytes: 1 << 20, GBps: 200}, {Bytes: 1 << 30, GBps: 20}}}

func TestMachineIsMeasured(t *testing.T) {
	m, err := Measure(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if m.GFLOPS <= 0 || len(m.Caches) != len(bandwidthSizes) {
		t.Fatalf("%+v", m)
	}
	for _, c := range m.Caches {
		if c.GBps <= 0 || c.Written <= 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestFloorIsTheLargerOfComputingAndMoving(t *testing.T) {
	stores := machine
	stores.Caches = []Bandwidth{{1 << 20, 200, 50}, {1 << 30, 20, 10}}
	for _, c := range []struct {
		m                     *Machine
		flops, bytes, written int64
		want                  time.Duration
	}{
		{&machine, 1000, 8, 8, 10},                               // 100 operations per nanosecond
		{&machine, 0, 1000, 1000, 5},                             // from the cache
		{&machine, 0, 2 << 20, 1 << 20, (2 << 20) / 20},          // from memory
		{&machine, 1, 4 << 30, 1 << 20, (4 << 30) / 20},          // larger than anything measured
		{&machine, 100 << 20, 2 << 20, 1 << 20, 100 << 20 / 100}, // both, computing takes longer
		{&stores, 0, 1000, 1000, 20},                             // storing takes longer than moving
		{&stores, 0, 1000, 100, 5},                               // moving takes longer
		{&stores, 0, 2 << 20, 2 << 20, (2 << 20) / 10},           // to memory
	} {
		if got := c.m.floor(work{tensor.F32, c.flops, c.bytes, c.written}); got != c.want {
			t.Errorf("%d operations, %d bytes, %d of them written: %v, want %v", c.flops, c.bytes, c.written, got, c.want)
		}
	}
}

func TestFloorOfProductsOfBF16(t *testing.T) {
	for peak, want := range map[float64]time.Duration{0: 10, 200: 5} { // without such products: float32's
		m := machine
		m.BF16 = peak
		if got := m.floor(work{tensor.BF16, 1000, 8, 8}); got != want {
			t.Errorf("at %v GFLOP/s of bfloat16: %v, want %v", peak, got, want)
		}
	}
}

func TestKernelsAreAllMeasuredOnce(t *testing.T) {
	seen := map[string]bool{}
	err := Kernels(t.Context(), &machine, KernelOptions{Match: "100x"}, func(r KernelResult) error {
		name := r.Name + " " + r.Shape
		if seen[name] || r.P50 <= 0 || r.Min > r.P50 || r.Floor <= 0 {
			t.Errorf("%+v", r)
		}
		seen[name] = true
		return nil
	})
	if err != nil || len(seen) < 10 {
		t.Fatalf("%d kernels, %v", len(seen), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Kernels(ctx, &machine, KernelOptions{}, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled measurement gives %v", err)
	}
}

func TestStepsAreThoseOfThePlan(t *testing.T) {
	digits := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}
	g, err := nn.Build(nn.Config{Name: "convnet"}, digits, tensor.Spec{DType: tensor.I32}, 10)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(g, plan.Options{Batch: 4, Train: true, Fuse: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Steps(t.Context(), p, cpu.New(), &machine, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range p.Steps() {
		if r := got[i]; r.Op != string(s.Op) || r.Layer != s.Layer || r.P50 <= 0 || r.FLOPs != s.FLOPs {
			t.Errorf("step %d, %s: %+v", i, s.Op, r)
		}
	}
	report := StepReport{Steps: got}
	if us, floor := report.total(); us <= 0 || floor <= 0 {
		t.Errorf("%v µs, floor %v", us, floor)
	}
}

func TestCoresTakeTurns(t *testing.T) {
	r, err := Cores(t.Context(), 2, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rates) != 1+len(bandwidthSizes) {
		t.Errorf("%d loops", len(r.Rates))
	}
	for _, c := range r.Rates {
		if c.One <= 0 || c.All <= 0 || c.Times <= 0 {
			t.Errorf("%+v", c)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Cores(ctx, 2, time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled measurement gives %v", err)
	}
}

// Loops run at the same time: the second one ends only when the first has begun.
func TestLoopsRunTogether(t *testing.T) {
	begun := make(chan struct{})
	first := func() int64 {
		select {
		case <-begun:
		default:
			close(begun)
		}
		return 1
	}
	second := func() int64 { <-begun; return 1 }
	if got := rateOf([]func() int64{first, second}, time.Microsecond); got <= 0 {
		t.Errorf("rate %v", got)
	}
}
