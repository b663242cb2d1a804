package cuda

import (
	"testing"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// mirrored is a device over the fake libraries, and shared memory that is mirrored there.
func mirrored(t *testing.T, size int) (*Device, []byte) {
	t.Helper()
	cudatest.Libraries(t, 1)
	d := must(Open(0, t.TempDir()))
	arena := must(shm.New("test", size))
	release, note, err := d.Mirror(arena.Bytes())
	if err != nil || note != "" {
		t.Fatal(note, err)
	}
	t.Cleanup(func() {
		for _, err := range []error{release(), arena.Close(), d.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return d, arena.Bytes()
}

// idle reports whether all that was enqueued for kernels is done.
func (d *Device) idle() bool {
	defer d.gpu.Enter()()
	return d.gpu.CU.StreamQuery(d.gpu.Stream) == nil
}

// A bucket is at the host while kernels that were enqueued behind its gradients
// have not run, and comes back before those that are enqueued later.
func TestBucketsTravelBesideKernels(t *testing.T) {
	const size = 4096
	d, mem := mirrored(t, 2*size)
	buckets := [][]byte{mem[:size], mem[size:]}
	first := tensor.Of(tensor.F32, tensor.Shape{size / 4}, buckets[0])
	first.F32()[7] = 2
	if err := d.Upload(mem); err != nil {
		t.Fatal(err)
	}
	s := must(d.NewStaging(buckets))
	defer s.Close()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(d.Scale(first, 3)) // the gradient
	ok(s.Fetch(0))
	ok(d.Scale(first, 100)) // a kernel behind it
	if landed, err := s.Fetched(0, false); landed || err != nil {
		t.Fatalf("landed %v before anybody waited: %v", landed, err)
	}
	if landed, err := s.Fetched(0, true); !landed || err != nil {
		t.Fatal(err)
	}
	if got := first.F32()[7]; got != 6 {
		t.Errorf("the host has %v, the gradient was 6", got)
	}
	if d.idle() {
		t.Error("the kernels behind the bucket were waited for")
	}
	first.F32()[7] = 10 // reduced
	ok(s.Store(0))
	ok(d.Scale(first, 2)) // the optimizer
	if d.idle() {
		t.Error("storing waited")
	}
	ok(d.Download(buckets[0]))
	if got := first.F32()[7]; got != 20 {
		t.Errorf("the optimizer made %v of 10", got)
	}
}

// A batch that was prefetched is what the next run reads, and one that was forgotten
// is read anew.
func TestBatchesArePrefetched(t *testing.T) {
	const rows = 1024
	d, mem := mirrored(t, 4*rows)
	in := tensor.Of(tensor.F32, tensor.Shape{rows}, mem)
	prog, out := copier(t, d, in.Spec())
	run := func(value float32) {
		t.Helper()
		if res := prog.Run(plan.Args{Input: mem}); res.Err != nil {
			t.Fatal(res.Err)
		}
		if got := out.F32()[5]; got != value {
			t.Errorf("the run read %v, want %v", got, value)
		}
	}
	in.F32()[5] = 1
	run(1)
	if err := d.Prefetch(mem, nil); err != nil {
		t.Fatal(err)
	}
	run(1)
	t.Setenv("CUDA_FAKE_EAGER", "1") // now it is copied
	in.F32()[5] = 2
	if err := d.Prefetch(mem, nil); err != nil {
		t.Fatal(err)
	}
	d.DropPrefetched()
	in.F32()[5] = 3
	run(3)
	if err := d.WaitPrefetched(); err != nil {
		t.Fatal(err)
	}
}

// copier is a program that hands on its batch.
func copier(t *testing.T, d *Device, s tensor.Spec) (*plan.Program, tensor.Tensor) {
	out := tensor.New(s.DType, s.Shape...)
	step := plan.Step{Op: op.Cast, Layer: "copy", In: []plan.Operand{{Spec: s, Place: plan.PlaceInput}}, Out: []plan.Operand{{Spec: s, Place: plan.PlaceState}}}
	p := plan.Assemble(plan.Parts{Batch: s.Shape[0], DType: s.DType, State: []tensor.Spec{s}, Steps: []plan.Step{step}, Input: s})
	prog := must(p.Bind(d, plan.State{Tensors: []tensor.Tensor{out}}))
	t.Cleanup(func() {
		if err := prog.Close(); err != nil {
			t.Error(err)
		}
	})
	return prog, out
}

// Memory that cannot be pinned is still used, with a warning.
func TestMemoryThatCannotBePinned(t *testing.T) {
	d, mem := mirrored(t, 8192)
	if _, note := d.Pin(mem); note == "" {
		t.Error("pages that are pinned already were pinned again, and nobody was told")
	}
	if unpin, note := d.Pin(mem[1:]); note != "" || unpin() != nil {
		t.Errorf("what is not a whole page is left alone: %q", note)
	}
}
