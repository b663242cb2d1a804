package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/report/rundir"
)

// poll is how often the files of runs that somebody watches are looked at.
const poll = 250 * time.Millisecond

// beat is how often an idle stream sends a comment, which keeps the connection open.
const beat = 15 * time.Second

// stream sends server-sent events.
type stream struct {
	w    http.ResponseWriter
	ctrl *http.ResponseController
	last time.Time
}

func newStream(w http.ResponseWriter) (*stream, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{w, http.NewResponseController(w), time.Now()}
	return s, s.write(": connected\n\n")
}

func (s *stream) write(text string) error {
	if _, err := fmt.Fprint(s.w, text); err != nil {
		return err
	}
	s.last = time.Now()
	return s.ctrl.Flush()
}

func (s *stream) send(kind string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, b))
}

// every calls look at once and then again and again, until the request ends or look fails.
func (s *stream) every(r *http.Request, look func() error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if err := look(); err != nil {
			return nil // the headers are sent: the stream ends, and the page connects again
		}
		if time.Since(s.last) > beat {
			if err := s.write(": keep-alive\n\n"); err != nil {
				return nil
			}
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// events notifies a page when its runs have changed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	dirs, err := s.dirs(r)
	if err != nil {
		return err
	}
	out, err := newStream(w)
	if err != nil {
		return err
	}
	seen := ""
	return out.every(r, func() error {
		now := ""
		for _, d := range dirs {
			now += rundir.Stamp(s.o.FS, d) + "\n"
		}
		if now == seen {
			return nil
		}
		seen = now
		return out.send("changed", time.Now().UTC())
	})
}

// Bounds of what a page gets of logs.
const (
	tail      = 500     // lines at first
	tailBytes = 4 << 20 // of each rank's log that are read for them
	longest   = 4 << 10 // bytes of a line
)

// logLine is a line of a log as pages get it.
type logLine struct {
	Time string `json:"time,omitempty"`
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

// logs sends the end of the logs of a run, and what is written afterwards; rank selects one.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	dir, err := s.dir(r)
	if err != nil {
		return err
	}
	var ranks []int
	if text := r.Form.Get("rank"); text != "" {
		rank, err := strconv.Atoi(text)
		if err != nil {
			return refuse(http.StatusBadRequest, "rank %q is not a number", rundir.Clean(text, 20))
		}
		ranks = []int{rank}
	}
	logs, err := launch.ReadLogs(s.o.FS, dir.Logs(), ranks...)
	if err != nil {
		return err
	}
	defer logs.Close()
	if err := logs.Tail(tailBytes); err != nil {
		return err
	}
	out, err := newStream(w)
	if err != nil {
		return err
	}
	return out.every(r, func() error {
		lines, err := newLines(logs)
		if err != nil || len(lines) == 0 {
			return err
		}
		return out.send("lines", lines)
	})
}

// newLines are the last of the lines that were not read yet.
func newLines(logs *launch.LogReader) (out []logLine, err error) {
	for {
		l, ok, err := logs.Next()
		if err != nil || !ok {
			return out[max(0, len(out)-tail):], err
		}
		line := logLine{Rank: l.Rank, Text: rundir.Clean(l.Text, longest)}
		if !l.Time.IsZero() {
			line.Time = l.Time.Format("15:04:05.000")
		}
		if out = append(out, line); len(out) > 4*tail {
			out = append(out[:0], out[len(out)-tail:]...)
		}
	}
}

// runState is what the live part of a page shows of a run.
type runState struct {
	Status string `json:"status"`
	Ranks  []int  `json:"ranks"`         // that have logs
	Why    string `json:"why,omitempty"` // the run cannot be signalled; "": it can
}

func (s *Server) state(w http.ResponseWriter, r *http.Request) error {
	dir, err := s.dir(r)
	if err != nil {
		return err
	}
	st := runState{Ranks: []int{}}
	if logs, err := launch.ReadLogs(s.o.FS, dir.Logs()); err == nil {
		st.Ranks = append(st.Ranks, logs.Ranks()...)
		_ = logs.Close() // only read
	}
	err = s.with(dir, func(run *rundir.Run) error {
		st.Status = run.Status(time.Now())
		if _, err := target(run); err != nil {
			st.Why = err.Error()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, st)
}

func (s *Server) save(w http.ResponseWriter, r *http.Request) error {
	return s.signal(w, r, launch.SaveSignal)
}

func (s *Server) stop(w http.ResponseWriter, r *http.Request) error {
	return s.signal(w, r, syscall.SIGTERM)
}

// signal signals the launcher of a run, or rank 0 where another launcher started it.
func (s *Server) signal(w http.ResponseWriter, r *http.Request, sig os.Signal) error {
	dir, err := s.dir(r)
	if err != nil {
		return err
	}
	return s.with(dir, func(run *rundir.Run) error {
		p, err := target(run)
		if err != nil {
			return err
		}
		if err := p.Signal(sig); errors.Is(err, os.ErrProcessDone) {
			return refuse(http.StatusConflict, "run %s has ended", run.ID)
		} else if err != nil {
			return refuse(http.StatusConflict, "process %d of run %s cannot be signalled: %v", p.PID, run.ID, err)
		}
		return writeJSON(w, map[string]any{"signalled": p.PID})
	})
}

// target is the process to signal, or why there is none.
func target(run *rundir.Run) (rundir.Process, error) {
	switch {
	case run.Summary != nil || run.Done != nil:
		return rundir.Process{}, refuse(http.StatusConflict, "run %s has ended", run.ID)
	case run.Host != rundir.Hostname():
		return rundir.Process{}, refuse(http.StatusConflict, "run %s is on host %q; fix: run trainctl ui there, or signal its launcher", run.ID, rundir.Clean(run.Host, 100))
	}
	for _, p := range []rundir.Process{run.Launcher, run.Rank0} {
		if p.Alive() {
			return p, nil
		}
	}
	return rundir.Process{}, refuse(http.StatusConflict, "no process of run %s is alive", run.ID)
}
