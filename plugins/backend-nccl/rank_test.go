package nccl

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// computing is a rank on a GPU, as far as a backend sees it: an arena and a
// stream. It works on a real driver and on a fake one.
type computing struct {
	cu      *driver.CUDA
	dev     driver.Device
	context driver.Context
	stream  driver.Stream
	arena   *memory.Arena
	uuid    string
	sources [][]byte // of copies that may still be under way
}

// newComputing takes the GPU of an ordinal.
func newComputing(t testing.TB, cu *driver.CUDA, ordinal, size int) *computing {
	t.Helper()
	r := &computing{cu: cu}
	var uuid driver.UUID
	err := errors.Join(cu.DeviceGet(&r.dev, int32(ordinal)), cu.DeviceGetUUID(&uuid, r.dev), cu.PrimaryCtxRetain(&r.context, r.dev))
	if err != nil {
		t.Fatal(err)
	}
	r.uuid = uuid.String()
	err = r.within(func() (err error) {
		if err = cu.StreamCreate(&r.stream, driver.StreamNonBlocking); err == nil {
			r.arena, err = memory.AllocArena(cu, r.dev, size)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// within makes the context current; a current context belongs to a thread.
func (r *computing) within(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := r.cu.CtxSetCurrent(r.context); err != nil {
		return err
	}
	return f()
}

func (r *computing) UUID() string { return r.uuid }

func (r *computing) Export(inProcess bool) (m *sdk.DeviceMemory, err error) {
	err = r.within(func() error { m, err = r.arena.Export(inProcess); return err })
	return m, err
}

func (r *computing) Attached(m *sdk.DeviceMemory) error {
	return r.within(func() error { return r.arena.Attached(m) })
}

func (r *computing) Write(offset int, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	r.sources = append(r.sources, b)
	return r.within(func() error {
		return r.cu.MemcpyHtoDAsync(r.arena.Address()+driver.DevicePtr(offset), unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), r.stream)
	})
}

func (r *computing) Written(ctx context.Context) (n int, err error) {
	err = r.within(func() error { n, err = r.arena.Written(ctx, r.stream); return err })
	return n, err
}

func (r *computing) Follow(done int) error {
	return r.within(func() error { return r.arena.Follow(r.stream, done) })
}

func (r *computing) Read(ctx context.Context, offset int, b []byte) error {
	return r.within(func() error {
		if err := gpu.WaitStream(ctx, r.cu, r.stream); err != nil || len(b) == 0 {
			return err
		}
		r.sources = nil
		return r.cu.MemcpyDtoH(unsafe.Pointer(unsafe.SliceData(b)), r.arena.Address()+driver.DevicePtr(offset), uintptr(len(b)))
	})
}

func (r *computing) Close() error {
	return r.within(func() error {
		return errors.Join(r.arena.Close(), r.cu.StreamDestroy(r.stream), r.cu.PrimaryCtxRelease(r.dev))
	})
}

var _ sdktest.DeviceRank = (*computing)(nil)

// machine is a fake host with n GPUs. What the test has not freed at its end is an error.
func machine(t testing.TB, n int) *fakegpu.Machine {
	t.Helper()
	m := fakegpu.New(n)
	t.Cleanup(func() {
		if left := m.Left(); left != "" {
			t.Errorf("not freed: %s", left)
		}
	})
	return m
}
