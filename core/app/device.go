package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.uber.org/fx"

	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/cuda"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/report/event"
)

// Machine is the device that this host's ranks compute on.
type Machine struct {
	Device string     // "cpu" or "cuda"
	Why    string     // why run.device = "auto" chose the CPU
	GPUs   []cuda.GPU // that this process sees; nil on CPUs
}

// Survey resolves run.device on this machine. A machine without GPUs is not an error with "auto";
// with "cuda" it is a *cuda.MissingError.
func Survey(ctx context.Context, device string) (Machine, error) {
	if device == "cpu" {
		return Machine{Device: "cpu"}, nil
	}
	gpus, err := cuda.Visible(ctx)
	var missing *cuda.MissingError
	switch {
	case err == nil:
		return Machine{Device: "cuda", GPUs: gpus}, nil
	case device == "auto" && errors.As(err, &missing) && !missing.Driver:
		return Machine{Device: "cpu", Why: missing.What}, nil // without the advice on how to get a GPU
	case device == "auto":
		return Machine{Device: "cpu", Why: err.Error()}, nil
	}
	return Machine{}, fmt.Errorf("run.device = %q: %w", device, err)
}

// gpu is the gpu of a rank: gpu localRank modulo the number of visible GPUs, since
// ranks may share a gpu or see only their own. Ranks compare their GPUs before the
// first step.
func (m Machine) gpu(w rank.World) cuda.GPU { return m.GPUs[w.LocalRank%len(m.GPUs)] }

// gpuText names a rank's gpu; "" on CPUs.
func (m Machine) gpuText(w rank.World) string {
	if m.Device != "cuda" {
		return ""
	}
	g := m.gpu(w)
	return fmt.Sprintf("%s (%s)", g.Name, g.UUID)
}

// String names the device, and why it is the CPU.
func (m Machine) String() string {
	switch {
	case m.Device == "cuda":
		return fmt.Sprintf("cuda (%d × %s)", len(m.GPUs), m.GPUs[0].Name)
	case m.Why != "":
		return "cpu (" + m.Why + ")"
	}
	return m.Device
}

func survey(cfg *config.Config) (Machine, error) { return Survey(context.Background(), cfg.Run.Device) }

// openDevice starts to open this rank's device: a gpu takes a while.
func openDevice(lc fx.Lifecycle, cfg *config.Config, m Machine, w rank.World, bus *event.Bus) *Starting[plan.Device] {
	s := start(func() (plan.Device, error) {
		if m.Device == "cpu" {
			return cpu.NewParallel(threads(cfg.Launch, w, os.LookupEnv)), nil
		}
		d, err := cuda.Open(m.gpu(w).Ordinal, kernelCache())
		if err != nil {
			return nil, err
		}
		d.AllowTF32(cfg.Run.TF32)
		d.Watch(cuda.Watch{Owner: fmt.Sprintf("rank %d", w.Rank), Timeout: cfg.Run.DeviceTimeout, Slow: func(what string) {
			bus.Emit(&event.Warning{Source: "device", Message: what})
		}})
		d.Repeatable(cfg.Run.Deterministic)
		return d, nil
	})
	lc.Append(fx.Hook{OnStop: func(context.Context) error {
		select {
		case <-s.done:
		case <-time.After(lateness):
			return errors.New("the GPU was not opened")
		}
		if d, ok := s.value.(*cuda.Device); ok && s.err == nil {
			return d.Close()
		}
		return nil
	}})
	return s
}

// threads is the number of CPU threads that a rank computes with. Our launcher, or
// the user, sets GOMAXPROCS; other launchers do not. torchrun's ranks share the cores
// of their host, those of batch systems have their own.
func threads(c launch.Config, w rank.World, env func(string) (string, bool)) int {
	_, told := env("GOMAXPROCS")
	switch {
	case c.AreThreads(): // GOMAXPROCS is for all ranks
		return c.Threads(w.LocalSize, cgroup.Cores())
	case told:
		return runtime.GOMAXPROCS(0)
	case w.Source == "torchrun" || !c.ThreadsPerRank.IsAuto():
		return c.Threads(w.LocalSize, cgroup.Cores())
	}
	return cgroup.Cores()
}

// useIdleCores lets a rank prepare for its first step on all cores that are its share of the host's, however few
// it will compute on. The result ends that.
func (r *runner) useIdleCores() (end func()) {
	share, few := cgroup.Cores()/max(1, r.p.World.LocalSize), runtime.GOMAXPROCS(0)
	if share <= few || r.p.World.Source != "trainctl" || r.p.Config.Launch.AreThreads() {
		return func() {}
	}
	runtime.GOMAXPROCS(share)
	return func() { runtime.GOMAXPROCS(few) }
}

// lateness is how long shutdown waits for driver calls that may never return.
const lateness = 2 * time.Second

// guarded runs f, which uses the device, and returns soon after the device is lost. f
// itself gets the error from its next call, unless it hangs in one.
func guarded(s *Starting[plan.Device], f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.done:
	}
	d, ok := s.value.(*cuda.Device)
	if !ok {
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-d.Over():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(lateness):
		return d.Lost()
	}
}

// kernelCache is the folder for compiled kernels, "" where there is none.
func kernelCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "trainctl", "kernels")
}
