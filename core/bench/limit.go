package bench

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// limitTile is reduced at a time; a tile of every buffer stays in the cache.
const limitTile = 64 << 10

// inPlace measures how fast one process can all-reduce n buffers of size bytes: one
// thread per buffer reduces its slice of all of them in place, and the threads
// synchronise by spinning. It is the lower bound for backends with processes and
// protocols in between. Between two calls every thread scales its own buffer, as the
// ranks do.
func inPlace(n, size int, d tensor.DType, budget time.Duration) (time.Duration, error) {
	l := &limit{size: size, dtype: d, end: time.Now().Add(budget)}
	for range n {
		a, err := shm.New("limit", size)
		if err != nil {
			return 0, err
		}
		defer a.Close()
		l.bufs = append(l.bufs, a.Bytes())
	}
	var running sync.WaitGroup
	for r := range n {
		running.Go(func() { l.run(r) })
	}
	running.Wait()
	return l.laps.percentile(0.5), nil
}

type limit struct {
	bufs  [][]byte
	size  int
	dtype tensor.DType
	end   time.Time
	laps  laps // of the first thread

	arrived atomic.Int64
	stop    atomic.Bool
}

func (l *limit) run(me int) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	slices := make([][]byte, len(l.bufs))
	phase := 0
	for calls := 0; ; calls++ {
		reduce.ScaleBytes(l.dtype, l.bufs[me], 1/float64(len(l.bufs)))
		start := time.Now()
		l.meet(&phase)
		l.reduce(me, slices)
		l.meet(&phase)
		if me == 0 && calls >= warmUp {
			l.laps = append(l.laps, time.Since(start))
			l.stop.Store(len(l.laps) >= leastLaps && time.Now().After(l.end) || len(l.laps) == maxLaps)
		}
		if calls%askEvery == 0 { // both look at the same moment
			l.meet(&phase)
			stop := l.stop.Load()
			l.meet(&phase)
			if stop {
				return
			}
		}
	}
}

// meet waits for all threads. It yields now and then, so that it also ends on
// fewer cores than threads.
func (l *limit) meet(phase *int) {
	*phase++
	l.arrived.Add(1)
	for spins := 0; l.arrived.Load() < int64(*phase*len(l.bufs)); spins++ {
		if spins%4096 == 4095 {
			runtime.Gosched()
		}
	}
}

func (l *limit) reduce(me int, tiles [][]byte) {
	n := len(l.bufs)
	chunk := (l.size/n + 63) &^ 63
	for from, end := min(me*chunk, l.size), min((me+1)*chunk, l.size); from < end; from += limitTile {
		to := min(from+limitTile, end)
		for r, b := range l.bufs {
			tiles[r] = b[from:to]
		}
		reduce.ReduceN(reduce.Sum, l.dtype, tiles[0], tiles, 1)
		for _, t := range tiles[1:] {
			copy(t, tiles[0])
		}
	}
}
