package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/pipe"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/rank"
)

// maxEvent bounds one event line.
const maxEvent = 1 << 20

// worker is one rank.
type worker struct {
	world   rank.World
	joins   bool // it was started when the run had begun
	started time.Time
	body    body
	log     *rankOutput
	files   []*os.File // our ends of its pipes
	stores  *os.File   // where it reads the moves of the store, with etcd
	pumps   sync.WaitGroup

	mu      sync.Mutex
	step    []byte  // last event line with a step
	phase   []byte  // last event line with a phase
	ready   bool    // it reported that its work is done
	account Account // why it ends

	once sync.Once // finish
}

// exit is the end of one worker.
type exit struct {
	w     *worker
	code  int            // -1 when a signal ended it
	sig   syscall.Signal // 0 when none did
	at    time.Time
	early bool // with 0, before its work was done
}

func (e exit) bad() bool { return e.code != 0 || e.early }

// pipe creates a pipe and keeps our end.
func (w *worker) pipe() (r, child *os.File, err error) {
	r, child, err = os.Pipe()
	if err == nil {
		w.files = append(w.files, r)
	}
	return r, child, err
}

// storesPipe is pipe in the other direction, for the moves of the store. Without on there is none.
func (w *worker) storesPipe(on bool) (child *os.File, err error) {
	if !on {
		return nil, nil
	}
	child, w.stores, err = os.Pipe()
	if err == nil {
		w.files = append(w.files, w.stores)
	}
	return child, err
}

// startWorker starts one rank. onEvent must be safe to call from any goroutine.
func (a *attempt) startWorker(world rank.World, joins bool) (*worker, error) {
	l := a.l
	w := &worker{world: world, joins: joins, started: time.Now(), log: openOutput(l.o.FS, l.o.LogDir, world.Rank, a.n == 0 && !joins, l.sink)}
	events, theirs, err := w.pipe()
	switch {
	case err != nil:
		err = fmt.Errorf("pipes of rank %d: %w", world.Rank, usererr.Explained(err))
	case l.o.Thread != nil:
		l.startThread(w, Place{World: world, Store: a.store.addr(), Secret: a.store.secret, Joins: joins, Events: theirs})
	default:
		err = l.startProcess(w, a.env(world, joins), a.store.secret, theirs)
	}
	if err != nil {
		w.closeFiles()
		return nil, err
	}
	widen(events)
	w.pumps.Go(func() { w.pumpEvents(&pipe.Reader{File: events}, l) })
	return w, nil
}

func (w *worker) closeFiles() {
	for _, f := range w.files {
		f.Close()
	}
	w.log.close()
}

func (w *worker) pumpLines(r io.Reader) {
	s := &splitter{out: w.log.piece}
	io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{r}, make([]byte, 32<<10))
	s.flush()
}

func (w *worker) pumpEvents(r io.Reader, l *launcher) {
	sc := bufio.NewScanner(&eventReader{r: r})
	sc.Buffer(make([]byte, 64<<10), maxEvent)
	for sc.Scan() {
		if len(sc.Bytes()) > 0 {
			w.note(sc.Bytes(), l.o)
			if text := l.o.Remark(sc.Bytes()); text != "" {
				w.log.file.Lines(text)
			}
			l.event(w.world.Rank, sc.Bytes())
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		l.sink.printf("warning: rank %d wrote an event of more than %d bytes; its further events are dropped", w.world.Rank, maxEvent)
		io.Copy(io.Discard, r) // the rank must not block on a full pipe
	}
}

// wait waits for the rank and sends its exit. With reports, exit code 0 counts only if the rank has
// reported that its work is done.
func (w *worker) wait(exits chan<- exit, reports bool) {
	e := exit{w: w}
	e.code, e.sig = w.body.wait()
	e.at = time.Now()
	if e.code == 0 && reports {
		w.finish() // which reads the rest of its output and events
		e.early = !w.finished()
	}
	exits <- e
}

// finish reads what is left in the pipes. It waits at most half a second for more
// from a descendant that still holds one open.
func (w *worker) finish() {
	w.once.Do(func() {
		for _, f := range w.files {
			f.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		}
		w.pumps.Wait()
		w.closeFiles()
	})
}
