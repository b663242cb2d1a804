package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/peak"
)

// CoresReport is what a number of threads reach together, beside one alone: the limit for
// launch.threads_per_rank on this machine.
type CoresReport struct {
	Level   string      `json:"level"`
	Threads int         `json:"threads"`
	Rates   []CoresRate `json:"rates"`
	// RoundTrip is how many nanoseconds a cache line takes from one thread to another and back; 0 with one thread.
	// On cores with one L3 cache that is 70 to 100, on others several times as much.
	RoundTrip float64 `json:"round_trip_ns"`
}

// CoresRate is the speed of a loop without synchronisation, in 10⁹ operations or bytes per
// second, and the median of the ratios of both.
type CoresRate struct {
	Loop  string  `json:"loop"`
	Unit  string  `json:"unit"`
	One   float64 `json:"one_thread"`
	All   float64 `json:"all_threads"`
	Times float64 `json:"times"`
}

// coresRounds is how often one thread and all of them are measured in turn.
const coresRounds = 7

// Cores measures what threads reach together: multiply-adds in registers, and y += x on memory
// of each thread's own, of the sizes of [Measure]. One thread and all take turns, so
// other work on the machine disturbs both alike. It takes about budget for each loop, and
// returns ctx's error if ctx ends first.
func Cores(ctx context.Context, threads int, budget time.Duration) (*CoresReport, error) {
	level, err := kernel.Active()
	if err != nil {
		return nil, err
	}
	r := &CoresReport{Level: level.String(), Threads: threads}
	add := func(loop, unit string, work []func() int64) error {
		rate, err := takeTurns(ctx, work, budget/(2*coresRounds))
		rate.Loop, rate.Unit = loop, unit
		r.Rates = append(r.Rates, rate)
		return err
	}
	if err := add("multiply-add in registers", "GFLOP/s", eachThread(threads, func() func() int64 {
		return func() int64 { return peak.MultiplyAdds(2000) }
	})); err != nil {
		return nil, err
	}
	for _, n := range bandwidthSizes {
		if err := add(fmt.Sprintf("y += x, %.1f MiB per thread", float64(n)/(1<<20)), "GB/s", eachThread(threads, func() func() int64 {
			x, y := ones(n/8), ones(n/8)
			return func() int64 {
				elementwise.AddTo(y, x)
				return int64(n) * 3 / 2
			}
		})); err != nil {
			return nil, err
		}
	}
	if threads > 1 {
		r.RoundTrip = roundTrip()
	}
	return r, nil
}

// A line is passed to and fro so often before the clock is read, which is done so often, unless it takes too long.
const (
	linePasses = 1000
	lineReads  = 100
	lineLimit  = time.Second
	lineLooks  = 100_000 // until a thread lets the other one have its core: those that let go soon stay on one
)

// roundTrip lets two threads change one cache line in turn, and returns the least time of both turns in nanoseconds:
// threads that begin on one core take thousands of times as long, until the system separates them.
func roundTrip() float64 {
	var line cacheLine
	least := math.Inf(1)
	var running sync.WaitGroup
	running.Go(func() {
		defer line.turn.Store(lineEnd)
		start := time.Now()
		for read, began := 0, start; read < lineReads && began.Sub(start) < lineLimit; read++ {
			line.pass(0)
			now := time.Now()
			least, began = min(least, float64(now.Sub(began).Nanoseconds())/linePasses), now
		}
	})
	running.Go(func() {
		for line.turn.Load() != lineEnd {
			line.pass(1)
		}
	})
	running.Wait()
	return least
}

// cacheLine says whose turn it is, 0 or 1, or that it is over.
type cacheLine struct {
	_    [64]byte
	turn atomic.Int32
	_    [64]byte
}

const lineEnd = -1

// pass takes part as one of the two for some turns, or until the end.
func (l *cacheLine) pass(me int32) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range linePasses {
		for looks := 0; ; looks++ {
			turn := l.turn.Load()
			if turn == me {
				break
			}
			if turn == lineEnd {
				return
			}
			if looks > lineLooks { // the other thread has no core
				runtime.Gosched()
			}
		}
		if !l.turn.CompareAndSwap(me, 1-me) { // the other one has ended it meanwhile
			return
		}
	}
}

// eachThread makes what each thread runs.
func eachThread(threads int, work func() func() int64) (all []func() int64) {
	for range threads {
		all = append(all, work())
	}
	return all
}

// takeTurns lets the first loop alone, and then all of them at a time, run for a while, in turn.
func takeTurns(ctx context.Context, work []func() int64, lap time.Duration) (r CoresRate, err error) {
	var one, all, ratios []float64
	rateOf(work, lap) // touches memory, and lets the clock rise
	for range coresRounds {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		a, b := rateOf(work[:1], lap), rateOf(work, lap)
		one, all, ratios = append(one, a), append(all, b), append(ratios, b/a)
	}
	return CoresRate{One: median(one), All: median(all), Times: median(ratios)}, nil
}

// rateOf runs loops on a thread each for the same time, and adds up what they did per
// nanosecond.
func rateOf(work []func() int64, lap time.Duration) float64 {
	rates := make([]float64, len(work))
	ready := make(chan struct{})
	var running sync.WaitGroup
	for i, f := range work {
		running.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			<-ready
			start := time.Now()
			var done int64
			for done == 0 || time.Since(start) < lap {
				done += f()
			}
			rates[i] = rate(float64(done), time.Since(start))
		})
	}
	close(ready)
	running.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// Text writes the report as a table.
func (r *CoresReport) Text(w io.Writer) error {
	fmt.Fprintf(w, "%d threads beside one, %s; medians of %d turns\n", r.Threads, r.Level, coresRounds)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "LOOP\t1 THREAD\t%d THREADS\tTIMES\t\t\n", r.Threads)
	for _, c := range r.Rates {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.2f\t%s\t\n", c.Loop, c.One, c.All, c.Times, c.Unit)
	}
	if err := tw.Flush(); err != nil || r.RoundTrip == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "a cache line takes %.0f ns from one thread to another and back\n", r.RoundTrip)
	return err
}
