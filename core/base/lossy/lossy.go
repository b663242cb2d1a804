package lossy

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"
)

// Writer queues every Write without blocking; its goroutine writes the queue to the
// output. When the queue exceeds a limit, the oldest writes are dropped as a whole and
// replaced by a notice. It is safe for concurrent use.
type Writer struct {
	out  io.Writer
	opts Options

	mu      sync.Mutex
	queue   [][]byte
	size    int // bytes in queue
	dropped int // lines dropped since the last notice
	lost    int // lines dropped in all
	noticed time.Time
	err     error
	closed  bool
	taken   time.Time     // when the output last took something
	wake    chan struct{} // there is something to write, or Close was called
	done    chan struct{} // the goroutine has ended
}

// Options of a Writer.
type Options struct {
	Limit int // maximum bytes in the queue; 0: 1 MiB
	// Notice returns the line that replaces dropped lines; nil: none.
	Notice func(lines int) []byte
	// NoticeEvery is the minimum time between two notices; the next one includes what
	// was dropped since. Close writes one for the rest. 0: a notice wherever lines were
	// dropped.
	NoticeEvery time.Duration
	// Patience is how long Close waits for a blocked output; 0: 2 s.
	Patience time.Duration
}

// piece is how much is written at once: what a pipe accepts atomically (PIPE_BUF).
const piece = 4 << 10

// NewWriter starts the goroutine, which ends with Close, or, if the output is blocked
// then, when the blocked write returns.
func NewWriter(out io.Writer, o Options) *Writer {
	if o.Limit == 0 {
		o.Limit = 1 << 20
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Second
	}
	w := &Writer{out: out, opts: o, taken: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Output is what NewWriter was given.
func (w *Writer) Output() io.Writer { return w.out }

// Write takes whole lines. It copies b and never blocks. The error is that of
// an earlier write to the output, after which everything is dropped.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	w.queue = append(w.queue, bytes.Clone(b))
	w.size += len(b)
	for w.size > w.opts.Limit && len(w.queue) > 1 {
		w.drop()
	}
	w.signal()
	return len(b), nil
}

// drop forgets the oldest write; mu is held.
func (w *Writer) drop() {
	n := bytes.Count(w.queue[0], []byte("\n"))
	w.dropped += n
	w.lost += n
	w.size -= len(w.queue[0])
	w.queue = w.queue[1:]
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Busy reports whether data is still queued or being written.
func (w *Writer) Busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size > 0
}

// Lost is the number of lines dropped so far, including those discarded by Close.
func (w *Writer) Lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// run writes until Close, or until the output fails.
func (w *Writer) run() {
	defer close(w.done)
	for range w.wake {
		for {
			next, ok := w.next()
			if !ok {
				break
			}
			if err := w.write(next); err != nil {
				w.fail(err)
				return
			}
			w.wrote(len(next))
		}
		if w.over() {
			return
		}
	}
}

// next is the oldest write, or before it the notice that is due.
func (w *Writer) next() ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noticeDue() {
		notice := w.opts.Notice(w.dropped)
		w.size += len(notice)
		w.dropped, w.noticed = 0, time.Now()
		return notice, true
	}
	if len(w.queue) == 0 {
		return nil, false
	}
	next := w.queue[0]
	w.queue = w.queue[1:]
	return next, true
}

// noticeDue reports whether lines were dropped without a notice and NoticeEvery has
// passed; mu is held.
func (w *Writer) noticeDue() bool {
	if w.dropped == 0 || w.opts.Notice == nil {
		return false
	}
	return w.closed && len(w.queue) == 0 || time.Since(w.noticed) >= w.opts.NoticeEvery
}

// write writes b to the output in pieces. Another process may have made a shared
// terminal non-blocking.
func (w *Writer) write(b []byte) error {
	for len(b) > 0 {
		n, err := w.out.Write(b[:min(piece, len(b))])
		if n > 0 {
			w.mu.Lock()
			w.taken = time.Now()
			w.mu.Unlock()
		}
		b = b[n:]
		switch {
		case errors.Is(err, syscall.EAGAIN):
			time.Sleep(10 * time.Millisecond)
		case err != nil:
			return err
		case n == 0:
			return io.ErrShortWrite
		}
	}
	return nil
}

func (w *Writer) wrote(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size -= n
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.queue, w.size = err, nil, 0
}

func (w *Writer) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed && len(w.queue) == 0 && !w.noticeDue()
}

// Close writes the rest of the queue and gives up if the output accepts nothing for
// Options.Patience. It does not close the output. It returns the output's error.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	began := time.Now()
	w.mu.Unlock()
	w.signal()
	tick := time.NewTicker(max(time.Millisecond, w.opts.Patience/20))
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return w.end(nil)
		case now := <-tick.C:
			if w.stuck(began, now) {
				return w.end(errStuck)
			}
		}
	}
}

var errStuck = errors.New("the output accepts no data")

func (w *Writer) stuck(began, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := began
	if w.taken.After(last) {
		last = w.taken
	}
	return now.Sub(last) >= w.opts.Patience
}

// end discards what is still queued.
func (w *Writer) end(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		w.drop()
	}
	if w.err == nil {
		w.err = err
	}
	return w.err
}
