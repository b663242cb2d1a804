package cuda

import "time"

// Watch says how long the GPU may take, and begins to look after calls of the driver
// that do not return, as those of one that has lost its device may. It is called
// once, and best before anything is bound. What is lost is told through Over.
func (d *Device) Watch(w Watch) {
	d.watch = w
	go d.guard(w.timeout())
}

// Over is closed when the device is lost, and Lost says why. Whoever uses the
// device is told by its errors, unless the call that it is in never returns.
func (d *Device) Over() <-chan struct{} { return d.over }

// Lost is a *LostError once the device is lost, nil before.
func (d *Device) Lost() error { return d.gone() }

// guard loses the device when a thread is within the driver for too long.
func (d *Device) guard(limit time.Duration) {
	tick := time.NewTicker(min(time.Second, limit/8))
	defer tick.Stop()
	calls, since := d.calls.Load(), time.Now()
	for {
		select {
		case <-d.closed:
			return
		case <-d.over:
			return
		case now := <-tick.C:
			if n := d.calls.Load(); n != calls || d.inside.Load() == 0 {
				calls, since = n, now
			} else if now.Sub(since) >= limit {
				_ = d.lose(&LostError{What: "a call of the driver", Waited: limit})
			}
		}
	}
}
