package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/job/secret"
)

// maxEvent bounds one event line.
const maxEvent = 1 << 20

// worker is one rank's process.
type worker struct {
	world   rank.World
	joins   bool // it was started when the run had begun
	started time.Time
	cmd     *exec.Cmd
	pid     int
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
func (l *launcher) startWorker(world rank.World, env []string, key secret.Secret, attempt int, joins bool) (*worker, error) {
	w := &worker{world: world, joins: joins, started: time.Now(), log: openOutput(l.o.FS, l.o.LogDir, world.Rank, attempt == 0 && !joins, l.sink)}
	c := l.o.Command(world)
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.SysProcAttr = c.Dir, procAttr()

	out, outChild, err1 := w.pipe()
	errs, errsChild, err2 := w.pipe()
	events, eventsChild, err3 := w.pipe()
	keyChild, err4 := key.Pipe()
	storesChild, err5 := w.storesPipe(l.o.Etcd != nil)
	theirs := []*os.File{outChild, errsChild, eventsChild, keyChild, storesChild}
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		w.closeFiles()
		return nil, fmt.Errorf("pipes of rank %d: %w", world.Rank, err)
	}
	widen(events)
	cmd.Stdout, cmd.Stderr = outChild, errsChild
	fd := 3 + len(c.ExtraFiles)
	cmd.ExtraFiles = append(append(cmd.ExtraFiles, c.ExtraFiles...), l.lifeline, eventsChild, keyChild)
	cmd.Env = append(append(append(os.Environ(), env...), c.Env...),
		fmt.Sprintf("%s=%d", EnvLifelineFD, fd), fmt.Sprintf("%s=%d", EnvEventFD, fd+1), fmt.Sprintf("%s=%d", secret.EnvFD, fd+2))

	if storesChild != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, storesChild)
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", rank.EnvStoreFD, fd+3))
	}
	if err := l.spawner.start(cmd); err != nil {
		w.closeFiles()
		return nil, fmt.Errorf("cannot start rank %d: %w", world.Rank, usererr.Explained(err))
	}
	w.cmd, w.pid = cmd, cmd.Process.Pid
	w.pumps.Go(func() { w.pumpLines(out) })
	w.pumps.Go(func() { w.pumpLines(errs) })
	w.pumps.Go(func() { w.pumpEvents(events, l) })
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

// wait waits for the process, kills what is left of its group, and sends the exit.
// With reports, exit code 0 counts only if the rank has reported that its work is done.
func (w *worker) wait(exits chan<- exit, reports bool) {
	err := w.cmd.Wait()
	e := exit{w: w, at: time.Now(), code: w.cmd.ProcessState.ExitCode()}
	if ws, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.sig = ws.Signal()
	}
	if err != nil && e.code == 0 {
		e.code = ExitFailed // not a failure of the process, but its output may be incomplete
	}
	syscall.Kill(-w.pid, syscall.SIGKILL)
	ownChildren.forget(w.pid)
	if e.code == 0 && reports {
		w.finish() // which reads the rest of its output and events
		e.early = !w.finished()
	}
	exits <- e
}

// signal signals only the rank, which stops its own children.
func (w *worker) signal(s syscall.Signal) { w.cmd.Process.Signal(s) }

func (w *worker) killGroup() { syscall.Kill(-w.pid, syscall.SIGKILL) }

// finish reads what is left in the pipes. It waits at most half a second for a
// descendant that still holds one open.
func (w *worker) finish() {
	w.once.Do(func() {
		for _, f := range w.files {
			f.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		}
		w.pumps.Wait()
		w.closeFiles()
	})
}
