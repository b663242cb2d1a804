package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// isolations are the places of a backend that are compared: the rank's process first,
// since it is the base of ratios.
var isolations = []string{"inproc", "isolated"}

// placements are the specs to measure: one for each isolation where the
// backend has that option and it was not given.
func placements(info sdk.Info, s Spec) []Spec {
	if _, given := s.Options["isolation"]; given {
		return []Spec{s}
	}
	for _, o := range info.Options {
		if o.Name != "isolation" {
			continue
		}
		out := make([]Spec, 0, len(isolations))
		for _, mode := range isolations {
			t := s
			t.Options = map[string]any{"isolation": mode}
			for k, v := range s.Options {
				t.Options[k] = v
			}
			out = append(out, t)
		}
		return out
	}
	return []Spec{s}
}

// gpu is a rank's device: a stream, and an arena that the backend reduces.
type gpu struct {
	cu      *driver.CUDA
	dev     driver.Device
	uuid    string
	context driver.Context
	stream  driver.Stream
	arena   *memory.Arena
	shared  *sdk.Arena // nil before attach
	free    uintptr    // bytes, before any rank started its backend
}

// openGPU opens the device of a local rank, modulo the number of devices. The calling
// goroutine is locked to its thread, which has the context.
func openGPU(open func() (*driver.CUDA, error), localRank, size int) (*gpu, error) {
	if open == nil {
		open = func() (*driver.CUDA, error) { return driver.OpenCUDA(dl.System()) }
	}
	cu, err := open()
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	g := &gpu{cu: cu}
	if err := g.open(localRank, size); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// missing reports whether there is no driver or no device. The backend then reports
// the fix.
func missing(err error) bool {
	return errors.As(err, new(*driver.NotFoundError)) || errors.Is(err, driver.NoDevice)
}

func (g *gpu) open(localRank, size int) (err error) {
	var n int32
	if err := errors.Join(g.cu.Init(0), g.cu.DeviceGetCount(&n)); err != nil {
		return err
	}
	if n == 0 {
		return driver.NoDevice
	}
	var uuid driver.UUID
	if err := errors.Join(g.cu.DeviceGet(&g.dev, int32(localRank)%n), g.cu.DeviceGetUUID(&uuid, g.dev)); err != nil {
		return err
	}
	g.uuid = uuid.String()
	if err := g.cu.PrimaryCtxRetain(&g.context, g.dev); err != nil {
		return err
	}
	if err := errors.Join(g.cu.CtxSetCurrent(g.context), g.cu.StreamCreate(&g.stream, driver.StreamNonBlocking)); err != nil {
		return err
	}
	g.arena, err = memory.AllocArena(g.cu, g.dev, size)
	return err
}

// openDevice opens the rank's GPU, where there is one, and notes how much of its memory is free. Ranks may share a GPU:
// it is noted when all of them have their own memory, and none has started its backend.
func (r *rig) openDevice(ctx context.Context, open func() (*driver.CUDA, error), store *rank.Client) (err error) {
	r.gpu, err = openGPU(open, r.world.LocalRank, slices.Max(r.Sizes))
	if err != nil && !missing(err) {
		return fmt.Errorf("the GPU of rank %d: %w", r.world.Rank, err)
	}
	if _, err := store.Gather(ctx, "devices opened", r.world.Rank, r.world.Size, nil); err != nil {
		return err
	}
	if r.gpu != nil {
		var total uintptr
		if err := r.gpu.cu.MemGetInfo(&r.gpu.free, &total); err != nil {
			return err
		}
	}
	_, err = store.Gather(ctx, "device memory noted", r.world.Rank, r.world.Size, nil)
	return err
}

// attach attaches the arena to a backend.
func (g *gpu) attach(ctx context.Context, b *host.Backend) error {
	m, err := g.arena.Export(b.Placement().InProcess)
	if err != nil {
		return err
	}
	g.shared = &sdk.Arena{ID: 2, Name: "gradients on the GPU", Device: m}
	if err := b.Attach(ctx, g.shared); err != nil {
		return err
	}
	return g.arena.Attached(m)
}

// taken is how much less device memory is free since the backends were started, by any
// process.
func (g *gpu) taken() (int, error) {
	var free, total uintptr
	if err := g.cu.MemGetInfo(&free, &total); err != nil {
		return 0, err
	}
	return max(0, int(g.free)-int(free)), nil
}

// close frees everything. The backend must be closed before.
func (g *gpu) close() error {
	var errs []error
	if g.arena != nil {
		errs = append(errs, g.arena.Close())
	}
	if g.stream != 0 {
		errs = append(errs, g.cu.StreamDestroy(g.stream))
	}
	if g.context != 0 {
		errs = append(errs, g.cu.PrimaryCtxRelease(g.dev))
	}
	return errors.Join(errs...)
}

// reduce all-reduces the region, in device memory if there is any. It calls the backend
// also in a world of one.
func (r *rig) reduce(g ddp.Region) error {
	if r.gpu == nil {
		return r.group.AllReduce(g, sdk.Sum, r.DType)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
	defer cancel()
	ready, err := r.gpu.arena.Written(ctx, r.gpu.stream)
	if err != nil {
		return err
	}
	c := sdk.Collective{
		Seq: r.group.Seq() + 1, Op: sdk.OpAllReduce, DType: r.DType, Count: g.Size / r.DType.Size(), Bucket: -1,
		Arena: r.gpu.shared, Ready: ready,
	}
	r.group.Continue(c.Seq)
	ticket, err := r.backend.Submit(&c)
	if err != nil {
		return err
	}
	return r.backend.Wait(ticket)
}

// place sets where the backend ran and how much memory of the GPU it used.
func (r *rig) place(result *Result) (err error) {
	if r.backend.Placement().Why == "" {
		return nil
	}
	result.Isolation = isolations[1]
	if r.backend.Placement().InProcess {
		result.Isolation = isolations[0]
	}
	if r.gpu != nil {
		if result.DeviceBytes, err = r.gpu.taken(); err != nil {
			return fmt.Errorf("reading the GPU's memory usage: %w", err)
		}
	}
	return nil
}
