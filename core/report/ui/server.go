package ui

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/sdk"
)

// Options describe a server.
type Options struct {
	FS      afero.Fs
	Dir     string     // folder of runs, as for rundir.List
	Version string     // of trainctl
	Plugins []sdk.Info // whose options have known defaults
}

// Server answers requests for the runs of a folder.
type Server struct {
	o     Options
	token string

	mu      sync.Mutex
	readers map[string]*reader // by directory
	briefs  map[string]brief
}

// reader is a run that a page shows. Its lock is held while the run is read or shown.
type reader struct {
	sync.Mutex
	*rundir.Reader
}

// New returns a server with a new token.
func New(o Options) *Server {
	return &Server{o: o, token: rand.Text(), readers: map[string]*reader{}, briefs: map[string]brief{}}
}

// Address is what to open in a browser, for a listener at addr.
func (s *Server) Address(addr net.Addr) string {
	return fmt.Sprintf("http://%s/?token=%s", addr, s.token)
}

// Serve answers requests until ctx is cancelled.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &http.Server{Handler: s.Handler(l.Addr()), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := context.AfterFunc(ctx, func() { h.Close() })
	defer done()
	err := h.Serve(l)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// Handler is the handler of a server that listens at addr.
func (s *Server) Handler(addr net.Addr) http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}":     s.index,
		"GET /runs":    s.runs,
		"GET /text":    s.text,
		"GET /data":    s.data,
		"GET /events":  s.events,
		"GET /logs":    s.logs,
		"GET /state":   s.state,
		"POST /labels": s.label,
		"POST /save":   s.save,
		"POST /stop":   s.stop,

		"GET /favicon.ico": noIcon,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				fail(w, err)
			}
		})
	}
	return s.guard(addr, mux)
}

// noIcon answers browsers that ask for an icon by themselves: a 404 would be an error in their consoles.
func noIcon(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// refused is an error with a status of its own.
type refused struct {
	status int
	text   string
}

func (e *refused) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refused{status, fmt.Sprintf(format, args...)}
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var r *refused
	switch {
	case errors.As(err, &r):
		status = r.status
	case errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

// dirs are the runs that a request names with id, in its order.
func (s *Server) dirs(r *http.Request) ([]event.RunDir, error) {
	var out []event.RunDir
	for _, id := range r.Form["id"] {
		d, ok := rundir.Find(s.o.FS, s.o.Dir, id)
		if !ok {
			return nil, refuse(http.StatusNotFound, "no run %q in %s", rundir.Clean(id, 200), s.o.Dir)
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		return nil, refuse(http.StatusBadRequest, "no run is chosen; fix: tick at least one run in the list")
	}
	return out, nil
}

// dir is the one run that a request names.
func (s *Server) dir(r *http.Request) (event.RunDir, error) {
	dirs, err := s.dirs(r)
	if err != nil {
		return event.RunDir{}, err
	}
	return dirs[0], nil
}

// reader is the reader of a run.
func (s *Server) reader(dir event.RunDir) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.readers[dir.Path]
	if r == nil {
		r = &reader{Reader: rundir.Open(s.o.FS, dir)}
		s.readers[dir.Path] = r
	}
	return r
}

// with calls use with a run as it is now. use must not wait for the client: other requests for the run
// wait for use.
func (s *Server) with(dir event.RunDir, use func(*rundir.Run) error) error {
	r := s.reader(dir)
	r.Lock()
	defer r.Unlock()
	if _, err := r.Update(); err != nil {
		return err
	}
	return use(r.Run)
}

// withAll is with for several runs and their traces.
func (s *Server) withAll(dirs []event.RunDir, use func([]page.Input) error) error {
	sorted := slices.Clone(dirs) // two requests for the same runs lock them in the same order
	slices.SortFunc(sorted, func(a, b event.RunDir) int { return strings.Compare(a.Path, b.Path) })
	for i, d := range sorted {
		if i > 0 && d.Path == sorted[i-1].Path {
			return refuse(http.StatusBadRequest, "run %s is named twice", rundir.ID(d))
		}
		r := s.reader(d)
		r.Lock()
		defer r.Unlock()
	}
	var runs []page.Input
	for _, d := range dirs {
		r := s.reader(d)
		if _, err := r.Update(); err != nil {
			return err
		}
		runs = append(runs, page.Trace(r.Reader, len(dirs)))
	}
	return use(runs)
}

// runs shows the page of one or several runs.
func (s *Server) runs(w http.ResponseWriter, r *http.Request) error { return s.page(w, r, false) }

// text answers with that page as its text is now.
func (s *Server) text(w http.ResponseWriter, r *http.Request) error { return s.page(w, r, true) }

func (s *Server) page(w http.ResponseWriter, r *http.Request, text bool) error {
	dirs, err := s.dirs(r)
	if err != nil {
		return err
	}
	var b bytes.Buffer // a client that reads slowly must not hold the locks of the runs
	err = s.withAll(dirs, func(runs []page.Input) error {
		return page.Write(&b, runs, page.Options{Version: s.o.Version, Now: time.Now(), Plugins: s.o.Plugins, Script: liveJS, Text: text})
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, err = w.Write(b.Bytes())
	return err
}

// data answers with what the charts of that page are drawn from, as far as it has changed since the page
// had what have says.
func (s *Server) data(w http.ResponseWriter, r *http.Request) error {
	dirs, err := s.dirs(r)
	if err != nil {
		return err
	}
	var b []byte
	err = s.withAll(dirs, func(runs []page.Input) (err error) {
		b, err = page.Data(runs, r.Form.Get("have"))
		return err
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(b)
	return err
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}
