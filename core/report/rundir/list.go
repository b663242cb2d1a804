package rundir

import (
	"bytes"
	"io"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"
	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/report/event"
)

// List returns the run directories below a folder: a folder of runs by name and number, the folder
// of one name, or a run itself. They are sorted by name and number; links such as latest are left out.
func List(fsys afero.Fs, base string) ([]event.RunDir, error) {
	if d, err := event.OpenRunDir(fsys, base); err == nil && d.IsRun() {
		return []event.RunDir{d}, nil
	}
	entries, err := afero.ReadDir(fsys, base)
	if err != nil {
		return nil, err
	}
	var out []event.RunDir
	for _, e := range entries {
		out = append(out, numbered(fsys, filepath.Join(base, e.Name()))...)
	}
	if len(out) == 0 {
		out = numbered(fsys, base)
	}
	return out, nil
}

// Find returns the run of that ID among those that List returns.
func Find(fsys afero.Fs, base, id string) (event.RunDir, bool) {
	name, number := path.Split(id)
	name = strings.TrimSuffix(name, "/")
	if n, err := strconv.Atoi(number); err != nil || n < 0 || name == "" || name != filepath.Base(name) || name == ".." {
		return event.RunDir{}, false
	}
	for _, p := range []string{base, filepath.Join(base, name, number), filepath.Join(base, number)} {
		if d, err := event.OpenRunDir(fsys, p); err == nil && d.IsRun() && ID(d) == id {
			return d, true
		}
	}
	return event.RunDir{}, false
}

// numbered are the runs of one name.
func numbered(fsys afero.Fs, parent string) (out []event.RunDir) {
	entries, err := afero.ReadDir(fsys, parent)
	if err != nil {
		return nil // a file
	}
	number := func(name string) int {
		n, err := strconv.Atoi(name)
		if err != nil {
			return -1
		}
		return n
	}
	for _, e := range entries {
		if number(e.Name()) < 0 {
			continue
		}
		if d, err := event.OpenRunDir(fsys, filepath.Join(parent, e.Name())); err == nil && d.IsRun() {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b event.RunDir) int { return number(filepath.Base(a.Path)) - number(filepath.Base(b.Path)) })
	return out
}

// ends is how many bytes of events ReadBrief reads at the beginning and at the end.
const ends = 64 << 10

// ReadBrief reads as much of a run as a list shows: Curves have no intervals, and Total is of the first
// and the last steps.
func ReadBrief(fsys afero.Fs, dir event.RunDir) (*Run, error) {
	r := Open(fsys, dir)
	r.alone = true
	f, err := fsys.Open(dir.Events())
	if err == nil {
		r.Run.problem(r.ends(f))
		r.Run.problem(f.Close())
	}
	_, err = r.Update()
	r.Run.Curves.Intervals = nil // up to a megabyte
	return r.Run, err
}

// InParallel calls read for runs, on all cores, and returns the results in the order of the runs, without
// those that were removed meanwhile.
func InParallel(dirs []event.RunDir, read func(event.RunDir) (*Run, error)) ([]*Run, error) {
	runs := make([]*Run, len(dirs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, d := range dirs {
		g.Go(func() error {
			r, err := read(d)
			if absent(err) {
				return nil
			}
			runs[i] = r
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(runs, func(r *Run) bool { return r == nil }), err
}

// ends takes the first and the last events, so that Update finds none.
func (r *Reader) ends(f afero.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	head, err := io.ReadAll(io.NewSectionReader(f, 0, min(size, 2*ends)))
	if err != nil {
		return err
	}
	parts := [][]byte{head}
	if size > 2*ends {
		tail, err := io.ReadAll(io.NewSectionReader(f, size-ends, ends))
		if err != nil {
			return err
		}
		parts = [][]byte{head[:ends], tail[bytes.IndexByte(tail, '\n')+1:]}
	}
	for i, part := range parts {
		whole := bytes.LastIndexByte(part, '\n') + 1
		entries := decodeLines(nil, part[:whole])
		for i := range entries {
			r.Run.take(&entries[i], &r.lines)
		}
		if i == len(parts)-1 {
			r.at = size - int64(len(part)-whole)
		}
	}
	return nil
}

// Elapsed is how long the run has taken, with what happened between its first event and its last.
func (r *Run) Elapsed() time.Duration {
	if r.Summary != nil && r.Summary.Time.TotalS.Finite() {
		return time.Duration(float64(r.Summary.Time.TotalS) * float64(time.Second))
	}
	return r.Ended.Sub(r.Began)
}
