package fetch

import (
	"context"
	"io"
	"time"
)

// watchdog cancels a context when nothing has been read for a while.
type watchdog struct {
	idle   time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

type stalled struct{}

func (stalled) Error() string { return "no data" }

func newWatchdog(ctx context.Context, idle time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{idle: idle, ctx: ctx, cancel: cancel}
	w.timer = time.AfterFunc(idle, func() { cancel(stalled{}) })
	return ctx, w
}

func (w *watchdog) fired() bool { return context.Cause(w.ctx) == stalled{} }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// reader passes bytes on; every read resets the watchdog.
func (w *watchdog) reader(r io.Reader) io.Reader { return &watched{r, w} }

type watched struct {
	io.Reader
	w *watchdog
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.w.timer.Reset(r.w.idle)
	}
	return n, err
}
