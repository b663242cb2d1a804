package gpu

import "time"

// Watch sets how long the GPU may take, and starts to watch calls of the driver that
// do not return, as those of one that has lost its device may. It is called once, and
// best before anything is bound. Over reports the loss.
func (g *GPU) Watch(w Watch) {
	g.watch = w
	go g.guard(w.timeout())
}

// Over is closed when the device is lost, and Lost says why. Whoever uses the
// device is recognised by its errors, unless the call that it is in never returns.
func (g *GPU) Over() <-chan struct{} { return g.over }

// Lost is a *LostError once the device is lost, nil before.
func (g *GPU) Lost() error {
	if e := g.lost.Load(); e != nil {
		return e
	}
	return nil
}

// guard loses the device when a thread is within the driver for too long. It counts its own ticks: a process
// that was stopped or did not get the processor missed them, and its calls did not have that time either.
func (g *GPU) guard(limit time.Duration) {
	every := min(time.Second, limit/8)
	tick := time.NewTicker(every)
	defer tick.Stop()
	calls, within := g.calls.Load(), time.Duration(0)
	for {
		select {
		case <-g.closed:
			return
		case <-g.over:
			return
		case <-tick.C:
			if n := g.calls.Load(); n != calls || g.inside.Load() == 0 {
				calls, within = n, 0
			} else if within += every; within >= limit {
				_ = g.lose(&LostError{What: "a call of the driver", Waited: limit})
			}
		}
	}
}
