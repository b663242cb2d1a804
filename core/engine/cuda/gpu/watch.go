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

// guard loses the device when a thread is within the driver for too long.
func (g *GPU) guard(limit time.Duration) {
	tick := time.NewTicker(min(time.Second, limit/8))
	defer tick.Stop()
	calls, since := g.calls.Load(), time.Now()
	for {
		select {
		case <-g.closed:
			return
		case <-g.over:
			return
		case now := <-tick.C:
			if n := g.calls.Load(); n != calls || g.inside.Load() == 0 {
				calls, since = n, now
			} else if now.Sub(since) >= limit {
				_ = g.lose(&LostError{What: "a call of the driver", Waited: limit})
			}
		}
	}
}
