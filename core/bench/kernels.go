package bench

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/tensor"
)

// Kernel is a kernel on one shape, with what it has to compute and to move.
type Kernel struct {
	Name    string       // "conv2d", "conv2d grad weight"
	Shape   string       // "100x16x14x14, 32 of 5x5"
	FLOPs   int64        // as the definition counts them, a multiplication and an addition as two
	Bytes   int64        // read and written at least
	Written int64        // of these, the bytes of results
	DType   tensor.DType // of what it multiplies; Invalid: float32
	Run     func()       // once, on memory of its own
}

// KernelResult is what was measured for one kernel.
type KernelResult struct {
	Name   string  `json:"kernel"`
	Shape  string  `json:"shape"`
	P50    float64 `json:"p50_us"`
	Min    float64 `json:"min_us"`
	GFLOPS float64 `json:"gflops"` // by the median
	GBps   float64 `json:"gbps"`   // by the median, decimal
	Floor  float64 `json:"floor_us"`
	// OfFloor is Floor per P50. It exceeds 1 where an algorithm needs fewer
	// multiplications than the definition.
	OfFloor float64 `json:"of_floor"`
}

// KernelOptions says which kernels Kernels measures, and how long each.
type KernelOptions struct {
	Match  string // what a kernel's name or shape contains
	Random int    // convolutions that are drawn in addition to those of the list
	Seed   uint64 // of these
	Budget time.Duration
}

// Kernels measures kernels on one thread and calls each with every result. It returns
// ctx's error if ctx ends first.
func Kernels(ctx context.Context, m *Machine, o KernelOptions, each func(KernelResult) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, make := range append(kernelCases(), convCases(randomShapes(o.Random, o.Seed))...) {
		k := make()
		if !strings.Contains(k.Name+" "+k.Shape, o.Match) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(m.measure(&k, o.Budget)); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) measure(k *Kernel, budget time.Duration) KernelResult {
	runs := repeat(budget, k.Run)
	p50 := runs.percentile(0.5)
	floor := m.floor(work{k.DType, k.FLOPs, k.Bytes, k.Written})
	return KernelResult{
		Name: k.Name, Shape: k.Shape, P50: micros(p50), Min: micros(runs[0]), Floor: micros(floor),
		GFLOPS: rate(float64(k.FLOPs), p50), GBps: rate(float64(k.Bytes), p50),
		OfFloor: float64(floor) / float64(max(1, p50)),
	}
}

// tick is the shortest lap: several runs are timed as one where one is shorter.
const tick = 20 * time.Microsecond

// repeat times f for the budget, at least nine times. Where the thread's own time is
// known it counts that, so that other work on the machine does not.
func repeat(budget time.Duration, f func()) laps {
	start := time.Now()
	f()
	f()
	each := int(tick/max(1, time.Since(start)/2)) + 1
	var l laps
	for end := time.Now().Add(budget); len(l) < 9 || time.Now().Before(end); {
		wall, own := time.Now(), threadTime()
		for range each {
			f()
		}
		lap := time.Since(wall)
		if t := threadTime() - own; t > 0 {
			lap = t
		}
		l = append(l, lap/time.Duration(each))
	}
	slices.Sort(l)
	return l
}
