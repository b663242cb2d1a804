package ui

import (
	"cmp"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/page"
	"github.com/trainctl/trainctl/core/report/rundir"
)

var (
	//go:embed assets/index.html
	indexHTML string
	//go:embed assets/index.js
	indexJS string
	//go:embed assets/live.js
	liveJS string

	indexPage = sync.OnceValue(func() *template.Template { return template.Must(template.New("index").Parse(indexHTML)) })
)

// brief is a run in the list, which is read again when one of its files has changed.
type brief struct {
	run   *rundir.Run
	stamp string
}

// line is a run in the list.
type line struct {
	*rundir.Run
	State string
	Facts []string
	Tags  string
}

// index shows the list of runs.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) error {
	dirs, err := rundir.List(s.o.FS, s.o.Dir)
	if err != nil {
		return err
	}
	now := time.Now()
	var lines []line
	runs, err := rundir.InParallel(dirs, s.brief)
	if err != nil {
		return err
	}
	for _, r := range runs {
		lines = append(lines, line{r, r.Status(now), page.Facts(r), strings.Join(r.Labels.Tags, ", ")})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.ID, a.ID)) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return indexPage().Execute(w, map[string]any{
		"Dir": s.o.Dir, "Lines": lines, "Heads": page.FactNames, "Version": s.o.Version,
		"CSS": template.CSS(page.Style()), "Script": template.JS(indexJS), "Policy": page.Policy(true, indexJS),
	})
}

// brief reads a run for the list.
func (s *Server) brief(dir event.RunDir) (*rundir.Run, error) {
	stamp := rundir.Stamp(s.o.FS, dir)
	s.mu.Lock()
	known := s.briefs[dir.Path]
	s.mu.Unlock()
	if known.run != nil && known.stamp == stamp {
		return known.run, nil
	}
	r, err := rundir.ReadBrief(s.o.FS, dir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.briefs[dir.Path] = brief{r, stamp}
	s.mu.Unlock()
	return r, nil
}

// label changes the tags and the note of a run.
func (s *Server) label(w http.ResponseWriter, r *http.Request) error {
	dir, err := s.dir(r)
	if err != nil {
		return err
	}
	l := rundir.Labels{Tags: strings.Split(r.PostForm.Get("tags"), ","), Note: strings.TrimSpace(r.PostForm.Get("note"))}
	if err := rundir.WriteLabels(s.o.FS, dir, l); err != nil {
		return err
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}
