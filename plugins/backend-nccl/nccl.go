package nccl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/agreement"
	"github.com/trainctl/trainctl/plugins/internal/clib"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// Backend is one rank's end of a process group. It implements [sdk.Backend].
// Methods are called from one goroutine, except Close, which may be called at any
// time and ends the running call.
type Backend struct {
	// Log gets decisions and refused connections. Nil means slog.Default.
	Log *slog.Logger

	finder *dl.Finder
	load   func(f *dl.Finder, library string) (libraries, error) // fakes in tests
	setenv func(name, value string) error

	life       *instance.State
	health     context.Context // ends, with the cause, when a collective fails whose call was completed early
	failHealth context.CancelCauseFunc

	group     sdk.Group
	set       settings
	version   int32 // of NCCL
	thread    *clib.Thread
	device    *device
	channels  channels
	watcher   watcher
	member    *agreement.Member
	connected bool
}

// New returns the plugin "nccl".
func New() *Backend {
	b := &Backend{finder: dl.System(), load: load, setenv: os.Setenv, life: instance.New("nccl")}
	b.health, b.failHealth = context.WithCancelCause(context.Background())
	return b
}

// Info describes the plugin.
func (b *Backend) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindBackend, Name: "nccl", Version: "0.3.0",
		Summary:     "collectives between NVIDIA GPUs",
		Options:     options(),
		DTypes:      []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.I8, tensor.U8, tensor.I32, tensor.I64},
		Devices:     []string{"cuda"},
		Ops:         ops(),
		DeviceArena: true,
	}
}

// Open checks the options, opens the libraries and takes the rank's GPU.
// Without one the error lists what is missing.
func (b *Backend) Open(_ context.Context, group sdk.Group, o sdk.Options) error {
	if err := b.life.Begin(); err != nil {
		return err
	}
	defer b.life.End()
	if b.thread != nil {
		return errors.New("backend nccl: opened twice")
	}
	set, err := readSettings(o, group.InProcess)
	if err != nil {
		return err
	}
	libs, err := b.load(b.finder, set.library)
	if err != nil {
		return err
	}
	if err := b.life.CheckGroup(group); err != nil {
		return err
	}
	b.group, b.set = group, set
	b.member = agreement.New(b.life, group)
	b.member.Remote = remote
	if err := b.share(); err != nil {
		return err
	}
	b.thread = clib.StartThread("NCCL or CUDA")
	return b.thread.Run(func() error { return b.take(libs) }, b.life.Context)
}

// share sets NCCL's experimental switch, if the user allowed it and did not set it. NCCL
// reads it once, so it must be set before any other call.
func (b *Backend) share() error {
	const name = "NCCL_MULTI_RANK_GPU_ENABLE"
	if !b.set.shared || os.Getenv(name) != "" {
		return nil
	}
	return b.setenv(name, "1")
}

func (b *Backend) take(libs libraries) (err error) {
	if err := libs.nccl.GetVersion(&b.version); err != nil {
		return err
	}
	if b.device, err = openDevice(libs.cuda, b.group.Device, b.group.LocalRank); err != nil {
		return unavailable(b.finder, b.set.library, err)
	}
	if b.channels, err = openChannels(libs, max(b.group.Channels, 1)); err != nil {
		return err
	}
	mode := isolationIsolated
	if b.group.InProcess {
		mode = isolationInproc
	}
	where, on := driver.MPS(os.Getenv)
	b.log().Info("NCCL", "isolation", mode, "version", driver.NCCLVersion(b.version),
		"device", b.device.name, "uuid", b.device.uuid, "mps", on, "mps_directory", where)
	return nil
}

// Attach maps an arena of the rank's GPU, and pins one of the host, which makes copies
// faster.
func (b *Backend) Attach(_ context.Context, arena *sdk.Arena) error {
	if err := b.life.BeginOpen(b.device != nil); err != nil {
		return err
	}
	defer b.life.End()
	if arena.Device != nil {
		return b.attachDevice(arena)
	}
	err := b.thread.Run(func() error { return b.device.pin(arena) }, b.life.Context)
	if errors.Is(err, clib.ErrStuck) {
		return err
	}
	if err != nil {
		b.log().Info("copies go through unpinned memory", "arena", arena.Name, "cause", err)
	}
	return nil
}

func (b *Backend) attachDevice(arena *sdk.Arena) error {
	var unordered error
	err := b.thread.Run(func() (err error) {
		unordered, err = b.device.attach(arena)
		return err
	}, b.life.Context)
	if err != nil {
		return fmt.Errorf("backend nccl: %w", err)
	}
	if unordered != nil {
		b.log().Warn("events cannot be shared: the rank waits for its GPU before every collective", "arena", arena.Name, "cause", unordered)
	}
	b.log().Info("gradients stay in device memory", "arena", arena.Name, "bytes", arena.Device.Size, "by", string(arena.Device.Kind), "events", arena.Device.Done.Len())
	return nil
}

// Close ends the instance in any state and frees everything, except what a hanging
// call uses.
func (b *Backend) Close() error {
	if !b.life.Close() {
		return nil
	}
	defer b.life.End()
	err := b.release()
	b.member.Close()
	return err
}

// release frees what the thread owns, and ends the thread.
func (b *Backend) release() error {
	if b.thread == nil {
		return nil
	}
	b.watcher.watching.Wait()
	err := b.thread.Run(func() error {
		leave := b.channels.leave
		if b.life.Failed != nil || !b.connected || context.Cause(b.health) != nil || len(b.watcher.list) > 0 {
			leave = b.channels.abort
		}
		err := errors.Join(leave(), b.channels.close())
		if b.device != nil {
			err = errors.Join(err, b.device.close())
		}
		return err
	}, b.life.Context)
	b.thread.Stop()
	if err != nil {
		b.log().Warn("leaving NCCL", "cause", err)
	}
	return nil
}

func (b *Backend) log() *slog.Logger { return b.life.Log(b.Log, b.group.Rank) }

var _ sdk.Backend = (*Backend)(nil)
