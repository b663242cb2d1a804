package train

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
)

// onGPU is a backend that reduces memory of the rank's fake GPU on a stream of
// its own. It reads behind the rank's event and nothing else, and its results
// are on their way, no more, when a call with Done completes.
type onGPU struct {
	sdk.Backend
	gpu    *machine
	rank   int
	refuse error // of arenas on the GPU
	silent bool  // no events

	stream driver.Stream
	room   *shm.Arena // pinned, so that copies from it are late
	done   []driver.Event
}

// machine is what ranks of a test have in common: the driver, and how many
// buckets went where.
type machine struct {
	cu *driver.CUDA
	mu sync.Mutex

	onDevice, early, onHost int
	attached, live          int
	trials                  atomic.Int64 // calls on the device that are no buckets'
}

func newMachine(t *testing.T) *machine {
	cu, err := driver.OpenCUDA(dl.System())
	if err != nil {
		t.Fatal(err)
	}
	return &machine{cu: cu}
}

// on runs calls of the driver where the rank's GPU is current.
func (b *onGPU) on(calls ...func(cu *driver.CUDA) error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c driver.Context
	err = errors.Join(b.gpu.cu.PrimaryCtxRetain(&c, driver.Device(b.rank)), b.gpu.cu.CtxSetCurrent(c))
	for _, call := range calls {
		if err == nil {
			err = call(b.gpu.cu)
		}
	}
	return err
}

func (b *onGPU) Info() sdk.Info {
	i := b.Backend.Info()
	i.DeviceArena = true
	return i
}

func (b *onGPU) Attach(ctx context.Context, a *sdk.Arena) error {
	if a.Device == nil {
		return b.Backend.Attach(ctx, a)
	}
	if b.refuse != nil {
		return b.refuse
	}
	m := a.Device
	if m.Kind != sdk.HandleAddress {
		return fmt.Errorf("memory by a handle of kind %q in the same process", m.Kind)
	}
	var err error
	if b.room, err = shm.New("reduced", m.Size); err != nil {
		return err
	}
	b.gpu.mu.Lock()
	b.gpu.attached++
	b.gpu.live++
	b.gpu.mu.Unlock()
	return b.on(
		func(cu *driver.CUDA) error { return cu.StreamCreate(&b.stream, driver.StreamNonBlocking) },
		func(cu *driver.CUDA) error {
			return cu.MemHostRegister(unsafe.Pointer(&b.room.Bytes()[0]), uintptr(m.Size), driver.HostPortable)
		},
		func(cu *driver.CUDA) error {
			for range m.Ready.Len() {
				if b.silent {
					break
				}
				var e driver.Event
				if err := cu.EventCreate(&e, driver.EventDisableTiming); err != nil {
					return err
				}
				b.done = append(b.done, e)
				m.Done.Local = append(m.Done.Local, uint64(e))
			}
			return nil
		})
}

// Do reduces in memory of the host or the device. A call without Done completes
// after all before it.
func (b *onGPU) Do(ctx context.Context, c *sdk.Collective) error {
	if c.Arena == nil || c.Arena.Device == nil {
		b.count(&b.gpu.onHost, c)
		err := b.Backend.Do(ctx, c)
		if b.stream != 0 && err == nil {
			err = b.on(func(cu *driver.CUDA) error { return cu.StreamSynchronize(b.stream) })
		}
		return err
	}
	b.count(&b.gpu.onDevice, c)
	if c.Bucket < 0 {
		b.gpu.trials.Add(1)
	}
	size := uintptr(c.Size(2))
	at := driver.DevicePtr(c.Arena.Device.Address) + driver.DevicePtr(c.Offset)
	now := make([]byte, size)
	return b.on(
		func(cu *driver.CUDA) error {
			if c.Ready == 0 {
				return nil
			}
			return cu.StreamWaitEvent(b.stream, driver.Event(c.Arena.Device.Ready.Local[c.Ready-1]), 0)
		},
		func(cu *driver.CUDA) error { return cu.MemcpyDtoHAsync(unsafe.Pointer(&now[0]), at, size, b.stream) },
		func(cu *driver.CUDA) error {
			call := *c
			call.Arena, call.Buf = nil, now
			err := b.Backend.Do(ctx, &call)
			if err != nil {
				for i := range now {
					now[i] = 0x7f // reduced by halves
				}
			}
			late := b.room.Bytes()[c.Offset:]
			copy(late, now)
			return errors.Join(err, cu.MemcpyHtoDAsync(at, unsafe.Pointer(&late[0]), size, b.stream))
		},
		func(cu *driver.CUDA) error {
			if c.Done == 0 {
				return cu.StreamSynchronize(b.stream)
			}
			b.count(&b.gpu.early, c)
			return cu.EventRecord(b.done[c.Done-1], b.stream)
		})
}

// count counts buckets.
func (b *onGPU) count(n *int, c *sdk.Collective) {
	b.gpu.mu.Lock()
	defer b.gpu.mu.Unlock()
	if c.Bucket >= 0 {
		*n++
	}
}

// Close leaves nothing.
func (b *onGPU) Close() error {
	err := b.Backend.Close()
	if b.room == nil {
		return err
	}
	room := b.room
	b.room = nil
	b.gpu.mu.Lock()
	b.gpu.live--
	b.gpu.mu.Unlock()
	return errors.Join(err, b.on(
		func(cu *driver.CUDA) error { return cu.MemHostUnregister(unsafe.Pointer(&room.Bytes()[0])) },
		func(cu *driver.CUDA) error { return cu.StreamDestroy(b.stream) },
	), room.Close())
}

// lent gives ranks such a backend, each a change of its own.
func lent(gpu *machine, change func(b *onGPU)) func(d *Deps) {
	net := membackend.NewWorld()
	return func(d *Deps) {
		b := &onGPU{Backend: net.New(), gpu: gpu, rank: d.World.LocalRank}
		if change != nil {
			change(b)
		}
		d.Backend = host.InProcessBackend(b)
	}
}

// Buckets that are summed up where they lie give the bits of those that pass
// through the host, which follow the processor's. What does not work in a
// device's memory takes the other way.
func TestGradientsAreReducedWhereTheyLie(t *testing.T) {
	cudatest.Libraries(t, 3)
	three, two := 3, 2
	half := func(d *Deps, options sdk.Options) {
		d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), options
	}
	for _, c := range []struct {
		name   string
		world  int
		staged bool
		change func(s *outline.Settings, d *Deps)
	}{
		{"momentum", 2, false, func(s *outline.Settings, _ *Deps) {}},
		{"three ranks, a bucket for each, clipped", 3, false, func(s *outline.Settings, _ *Deps) {
			s.DDP.FirstBucketMB, s.DDP.BucketCapMB, s.Train.MaxNorm = 1e-6, 1e-6, 0.1
		}},
		{"adam", 2, false, func(s *outline.Settings, _ *Deps) { s.Optimizer = optim.DefaultFor("adam") }},
		{"accumulation, without overlap", 2, false, func(s *outline.Settings, _ *Deps) { s.Train.AccumulateSteps, s.DDP.Overlap = 2, false }},
		{"predivided", 3, false, func(s *outline.Settings, _ *Deps) { s.DDP.PredivideFactor = 1.5 }},
		{"uneven", 3, false, func(s *outline.Settings, _ *Deps) {
			s.DDP.Uneven, s.Sampler.Pad, s.Train.AccumulateSteps = ddp.UnevenJoin, "none", 2
			s.DatasetOptions["train_samples"] = int64(25)
		}},
		{"layers left out", 2, false, func(s *outline.Settings, _ *Deps) { dropping(s); s.Train.AccumulateSteps = 2 }},
		{"batch norms together", 2, false, func(s *outline.Settings, _ *Deps) {
			s.Model = nn.Config{Layers: []nn.LayerConfig{
				{Type: "conv2d", Args: op.Args{"out_channels": two, "kernel_size": op.Pair{3, 3}}}, {Type: "batchnorm2d"}, {Type: "relu"}, {Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": three}},
			}}
			s.DDP.SyncBatchNorm, s.Train.MaxSteps, s.DDP.FirstBucketMB, s.DDP.BucketCapMB = true, 3, 1e-6, 1e-6
		}},
		{"master weights, a dynamic scale", 2, false, func(_ *outline.Settings, d *Deps) {
			half(d, sdk.Options{"level": "O2", "init_scale": float64(1 << 23), "growth_interval": int64(2)})
		}},
		{"nothing but half", 2, false, func(_ *outline.Settings, d *Deps) { half(d, sdk.Options{"level": "O3"}) }},
		{"caps that are measured", 2, false, func(s *outline.Settings, _ *Deps) { s.DDP.BucketCapMB = ddp.AutoCap }},
		{"compressed", 2, true, func(s *outline.Settings, _ *Deps) { s.DDP.Compress = "bf16" }},
		{"factors", 2, true, func(s *outline.Settings, _ *Deps) { s.DDP.Compress, s.DDP.PowerSGDStart = "powersgd", 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cpu, staged, where curve
			change := func(d *Deps) { c.change(&d.Settings, d) }
			gpu := newMachine(t)
			lend := lent(gpu, nil)
			cpu.train(t, false, c.world, change)
			staged.train(t, true, c.world, change)
			where.train(t, true, c.world, func(d *Deps) { change(d); lend(d) })
			within := 1e-5
			if where.half {
				within = 1e-2
			}
			where.follows(t, &cpu, within)
			where.equals(t, &staged)
			if gpu.live != 0 || (gpu.onDevice == 0) != c.staged || (gpu.onHost == 0) == c.staged || gpu.early != gpu.onDevice {
				t.Errorf("%+v", gpu)
			}
			if measured := c.name == "caps that are measured"; (gpu.trials.Load() > 0) != measured {
				t.Errorf("%d trials on the device", gpu.trials.Load())
			}
		})
	}
}

// equals compares two runs to the last bit.
func (c *curve) equals(t *testing.T, want *curve) {
	t.Helper()
	if got, want := fmt.Sprint(c.loss, c.norm, c.eval, c.params), fmt.Sprint(want.loss, want.norm, want.eval, want.params); got != want {
		t.Errorf("got\n%s, by way of the host\n%s", got, want)
	}
}

// A backend that refuses the device's memory, and one that cannot share events,
// give the same bits; the first says once on each rank why it takes another way.
func TestBackendsThatLackSomething(t *testing.T) {
	cudatest.Libraries(t, 2)
	var want curve
	want.train(t, true, 2, func(*Deps) {})
	for name, c := range map[string]struct {
		change        func(b *onGPU)
		env           string
		device, early bool
		told          string
	}{
		"all":                  {nil, "", true, true, ""},
		"no arenas":            {func(b *onGPU) { b.refuse = fmt.Errorf("not with me: %w", errors.ErrUnsupported) }, "", false, false, "not with me"},
		"no events of its own": {func(b *onGPU) { b.silent = true }, "", true, false, ""},
		"no events at all":     {nil, "CUDA_FAKE_NO_EVENTS", true, false, ""},
		"at once":              {nil, "CUDA_FAKE_EAGER", true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, "1")
			}
			gpu := newMachine(t)
			lend := lent(gpu, c.change)
			var got curve
			var mu sync.Mutex
			var told []string
			got.train(t, true, 2, func(d *Deps) {
				lend(d)
				d.Events.Add(event.Func(func(r event.Record) {
					if e, ok := r.Event.(*event.Warning); ok && e.Source == "backend" {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, e.Message)
					}
				}))
			})
			got.equals(t, &want)
			if gpu.live != 0 || (gpu.onDevice > 0) != c.device || (gpu.early > 0) != c.early || (gpu.onHost > 0) == c.device {
				t.Errorf("%+v", gpu)
			}
			if (c.told == "" && len(told) > 0) || (c.told != "" && (len(told) != 2 || !strings.Contains(told[0], c.told))) {
				t.Errorf("told %q", told)
			}
		})
	}
}

// What a broken group left in a device's memory does no harm there, whether the
// next one reduces in it or will not: a run ends with the bits of one that goes by way of the host.
func TestLentMemoryOutlivesBackends(t *testing.T) {
	cudatest.Libraries(t, 2)
	defer func(was func(sdk.Backend, int) sdk.Backend) { mortals = was }(mortals)
	whole := mortals
	for name, c := range map[string]struct {
		refuses bool // the backend that comes next
		change  func(d *Deps)
	}{
		"plain":                        {false, func(*Deps) {}},
		"predivided, then by the host": {true, func(d *Deps) { d.Settings.DDP.PredivideFactor = 1.5 }},
		"accumulated, dynamic scale": {false, func(d *Deps) {
			d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), sdk.Options{"dtype": "fp16"}
			d.Settings.Train.AccumulateSteps = 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			on := func(d *Deps) {
				d.Device = fakeGPU(t, d.World.LocalRank)
				c.change(d)
			}
			mortals = whole
			want, calls, errs := trainThrough(t, 0, on)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for at := 1; at+4 <= calls[0]; at += 17 { // a step has ten calls: each of them comes up in another step
				for _, d := range []death{{0, at + 4, false}, {1, at, true}} {
					gpu := newMachine(t)
					mortals = func(b sdk.Backend, rank int) sdk.Backend {
						g := &onGPU{Backend: b, gpu: gpu, rank: rank}
						gpu.mu.Lock()
						defer gpu.mu.Unlock()
						if gpu.attached >= 2 && c.refuses {
							g.refuse = errors.ErrUnsupported
						}
						return g
					}
					got, _, errs := trainThrough(t, 1, on, d)
					if err := errors.Join(errs...); err != nil || got != want {
						t.Fatalf("%+v: ended with %v, undisturbed with %v: %v", d, got, want, err)
					}
					if attached := map[bool]int{false: 4, true: 2}[c.refuses]; gpu.live != 0 || gpu.attached != attached || !c.refuses && (gpu.onDevice == 0 || gpu.onHost > 0) {
						t.Errorf("%+v: %+v", d, gpu)
					}
				}
			}
		})
	}
}
