package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// envSpec carries the Spec to a rank.
const envSpec = "TRAINCTL_BENCH"

// envDevice carries the name of the network device between the ranks to peers.
const envDevice = "TRAINCTL_BENCH_DEVICE"

// Rank is one rank of AllReduce, configured from its environment. Rank 0 writes one
// JSON object for every size to out.
func Rank(ctx context.Context, p Program, out io.Writer) error {
	var s Spec
	if err := s.decode(os.Getenv(envSpec)); err != nil {
		return fmt.Errorf("%s: only trainctl bench starts this command: %w", envSpec, err)
	}
	w, err := rank.FromEnv(os.LookupEnv)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	return measureAs(ctx, p, s, w, func(r Result) error { return enc.Encode(r) })
}

// Launched is the place of this process among several ranks that mpirun, srun or torchrun has started;
// false if it is none of them.
func Launched(env rank.Lookup) (w rank.World, launched bool) {
	w, err := rank.FromEnv(env)
	return w, err == nil && w.Size > 1
}

// AllReduceAs is AllReduce on ranks that another launcher has started, of which this process is one.
// Rank 0 calls each. The limit of the machine is not measured.
func AllReduceAs(ctx context.Context, w rank.World, p Program, s Spec, each func(Result) error) error {
	s.World = w.Size
	if err := s.Check(); err != nil {
		return err
	}
	return measureAs(ctx, p, s, w, each)
}

// measureAs measures every size as one of the ranks. Rank 0 calls each.
func measureAs(ctx context.Context, p Program, s Spec, w rank.World, each func(Result) error) (err error) {
	store, err := rank.Join(ctx, w, rank.JoinOptions{})
	if err != nil {
		return err
	}
	defer store.Close()
	h := host.New(host.Options{Builtins: p.Builtins, Exe: p.Exe})
	r := &rig{Spec: s, world: w}
	info, err := h.Describe(ctx, sdk.KindBackend, s.Backend)
	if err != nil {
		return err
	}
	if info.DeviceArena {
		failed := r.openDevice(ctx, p.CUDA, store)
		if r.gpu != nil {
			defer func() { err = errors.Join(err, r.gpu.close()) }()
		}
		if failed != nil {
			return failed
		}
	}
	b, err := h.PlaceBackend(ctx, s.Backend, s.Options, sdk.PlaceRequest{Device: "cuda", Overlap: true, Getenv: os.Getenv})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	r.backend = b
	if err := r.connect(ctx, store); err != nil {
		return err
	}
	defer r.arena.Close()
	for _, size := range s.Sizes {
		result, err := r.measure(size)
		if err != nil {
			return err
		}
		if w.Rank == 0 {
			if err := each(result); err != nil {
				return err
			}
		}
	}
	return r.group.Barrier()
}

// rig is a rank with its memory and its backend.
type rig struct {
	Spec
	world   rank.World
	backend *host.Backend
	gpu     *gpu // nil where the backend reduces memory of the host
	arena   *sdk.Arena
	group   *ddp.Group
	laps    laps
}

// connect puts the rank into the state of a trainer before its first step.
func (r *rig) connect(ctx context.Context, store *rank.Client) error {
	options, err := r.options()
	if err != nil {
		return err
	}
	key, err := rank.SecretOf(r.world, "")
	if err != nil {
		return err
	}
	device := ""
	if r.gpu != nil {
		device = r.gpu.uuid
	}
	if err := r.backend.Open(ctx, sdk.Group{
		Device: device, JobID: r.world.RunID, Secret: key.Key("data plane"), Rank: r.world.Rank, WorldSize: r.world.Size, LocalRank: r.world.LocalRank,
		LocalSize: r.world.LocalSize, Timeout: r.Timeout, MasterAddr: r.world.MasterAddr,
	}, options); err != nil {
		return err
	}
	if err := r.allocate(ctx); err != nil {
		return err
	}
	if r.gpu != nil {
		if err := r.gpu.attach(ctx, r.backend); err != nil {
			return err
		}
	}
	endpoint, err := r.backend.Listen(ctx)
	if err != nil {
		return err
	}
	endpoints, err := store.Gather(ctx, "endpoint", r.world.Rank, r.world.Size, endpoint)
	if err != nil {
		return err
	}
	return r.backend.Connect(ctx, endpoints)
}

func (r *rig) options() (sdk.Options, error) {
	return r.checked(r.backend.Info())
}

// allocate makes an arena for the scalars and the largest buffer.
func (r *rig) allocate(ctx context.Context) error {
	largest := 0
	for _, n := range r.Sizes {
		largest = max(largest, n)
	}
	mem, err := shm.New("gradients", ddp.ScratchBytes+largest)
	if err != nil {
		return err
	}
	r.arena = &sdk.Arena{ID: 1, Name: "gradients", Arena: mem}
	r.laps = newLaps()
	r.group = ddp.NewGroup(r.world.Rank, r.world.Size, r.backend, r.arena, ddp.Region{Size: ddp.ScratchBytes})
	return r.backend.Attach(ctx, r.arena)
}

// measure runs calls until the time is up on any rank.
func (r *rig) measure(size int) (Result, error) {
	g := ddp.Region{Offset: ddp.ScratchBytes, Size: size}
	buf := r.group.Bytes(g)
	clear(buf)
	r.laps = r.laps[:0]
	end := time.Now().Add(r.Budget)
	for calls := -warmUp; ; calls++ {
		reduce.ScaleBytes(r.DType, buf, 1/float64(r.world.Size)) // what a bucket meets before its reduction
		compute(r.Idle)
		start := time.Now()
		if err := r.reduce(g); err != nil {
			return Result{}, err
		}
		if calls >= 0 {
			r.laps = append(r.laps, time.Since(start))
		}
		if calls < leastLaps || calls%askEvery != 0 {
			continue
		}
		stop, err := r.group.Any(time.Now().After(end) || len(r.laps)+askEvery > maxLaps)
		if err != nil {
			return Result{}, err
		}
		if stop {
			return r.slowest(g)
		}
	}
}

// slowest returns the figures of the slowest rank.
func (r *rig) slowest(g ddp.Region) (Result, error) {
	v := [2]float64{float64(r.laps.percentile(0.5)), float64(r.laps.percentile(0.99))}
	if err := r.group.Scalars(sdk.Max, v[:]); err != nil {
		return Result{}, err
	}
	result := r.result(g.Size, time.Duration(v[0]), time.Duration(v[1]), len(r.laps))
	idle, err := r.rested(g)
	result.Idle = micros(idle)
	return result, errors.Join(err, r.place(&result))
}

// restedLaps is how many calls are measured from rest: as many as scalars fit
// into one reduction, and fewer of those that take milliseconds.
func restedLaps(size int) int {
	const most, large = ddp.ScratchBytes / 8, 1 << 20
	if size > large {
		return most / 4
	}
	return most
}

// rested measures calls that find every process asleep. Ranks wake at
// different moments; the one that comes last sees how long a call takes.
func (r *rig) rested(g ddp.Region) (time.Duration, error) {
	if r.Rest <= 0 {
		return 0, nil
	}
	v := make([]float64, restedLaps(g.Size))
	for i := range v {
		time.Sleep(r.Rest)
		start := time.Now()
		if err := r.reduce(g); err != nil {
			return 0, err
		}
		v[i] = float64(time.Since(start))
	}
	if err := r.group.Scalars(sdk.Min, v); err != nil {
		return 0, err
	}
	r.laps = r.laps[:0]
	for _, t := range v {
		r.laps = append(r.laps, time.Duration(t))
	}
	return r.laps.percentile(0.5), nil
}

// compute keeps the core busy, as backward does between two buckets.
func compute(d time.Duration) {
	for end := time.Now().Add(d); d > 0 && time.Now().Before(end); {
	}
}
