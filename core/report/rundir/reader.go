package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/openfile"
	"github.com/trainctl/trainctl/core/report/event"
)

// Reader reads a run directory bit by bit. It is not safe for concurrent use.
type Reader struct {
	Run *Run

	fs    afero.Fs
	alone bool // without the runs before, configuration and evaluations in detail
	at    int64
	seen  map[string]stamp
	lines event.Lines
	trace *Trace // the last that Timeline returned
}

// stamp tells whether a file has changed.
type stamp struct {
	size int64
	time time.Time
}

// Open returns a reader that has read nothing yet.
func Open(fsys afero.Fs, dir event.RunDir) *Reader {
	r := &Reader{Run: &Run{Dir: dir}, fs: fsys, seen: map[string]stamp{}}
	r.Run.ID = ID(dir)
	r.Run.Name = path.Dir(r.Run.ID)
	return r
}

// Update reads what was written since the last call, and reports whether there was anything. Its
// error is that the directory does not exist; for everything else see Run.Problems.
func (r *Reader) Update() (changed bool, err error) {
	if !r.Run.Dir.IsRun() {
		return false, errNoRun(r.Run.Dir)
	}
	dir := r.Run.Dir
	first := r.Run.Started == nil
	events, err := r.events()
	r.Run.problem(err)
	changed = events
	files := []wholeFile{
		{dir.Summary(), func(b []byte) error { return decodeInto(b, &r.Run.Summary) }},
		{labelsFile(dir), func(b []byte) error {
			labels := &r.Run.Labels
			err := decodeInto(b, &labels) // a new one: keys that are gone are empty
			r.Run.Labels = *labels
			return err
		}},
	}
	if !r.alone {
		files = append(files,
			wholeFile{dir.Config(), func(b []byte) error { r.Run.Config = string(b); return nil }},
			wholeFile{dir.EvaluationFile(), r.evaluation(&r.Run.Evaluation)},
			wholeFile{dir.BestEvaluationFile(), r.evaluation(&r.Run.BestEval)})
	}
	for _, f := range files {
		again, err := r.whole(f.path, f.take)
		r.Run.problem(err)
		changed = changed || again
	}
	if first && !r.alone {
		r.Run.before(r.fs)
	}
	return changed, nil
}

// wholeFile is a file that is read again as a whole when it has changed.
type wholeFile struct {
	path string
	take func([]byte) error
}

// evaluation decodes an evaluation and reads its pictures.
func (r *Reader) evaluation(to **event.Evaluation) func([]byte) error {
	return func(b []byte) error {
		err := decodeInto(b, to)
		if err == nil {
			r.Run.Dir.ReadPictures(r.fs, *to)
		}
		return err
	}
}

func decodeInto[T any](b []byte, to **T) error {
	v := new(T)
	err := json.Unmarshal(b, v)
	if err == nil {
		*to = v
	}
	return err
}

// tooLong is the size of a file, other than events, that is not read.
const tooLong = 64 << 20

// whole reads a file again if it has changed.
func (r *Reader) whole(file string, take func([]byte) error) (changed bool, err error) {
	info, err := r.fs.Stat(file)
	if err != nil {
		return false, err
	}
	now := stamp{info.Size(), info.ModTime()}
	if r.seen[file] == now {
		return false, nil
	}
	r.seen[file] = now
	if info.Size() > tooLong {
		return false, fmt.Errorf("%s: not read, because it has %d bytes", file, info.Size())
	}
	b, err := afero.ReadFile(r.fs, file)
	if err == nil {
		err = take(b)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return err == nil, err
}

// Bounds of what is decoded at a time.
const (
	block   = 256 << 10 // bytes of events: with what is decoded from them, they fit into a core's cache
	longest = 2 << 20   // bytes of a line: longer ones are not events of this program
)

// events reads the new lines of events.jsonl. A last line without an end is left for the next time.
func (r *Reader) events() (changed bool, err error) {
	f, info, err := openfile.WithInfo(r.fs, r.Run.Dir.Events())
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info.Size() < r.at {
		return false, fmt.Errorf("%s has become shorter; what it said before is shown", r.Run.Dir.Events())
	}
	if info.Size() == r.at {
		return false, nil
	}
	if _, err := f.Seek(r.at, io.SeekStart); err != nil {
		return false, err
	}
	return r.decode(f, int(min(block, info.Size()-r.at+1)))
}

// chunk is memory for a block of whole lines and for what is decoded from them.
type chunk struct {
	text    []byte
	entries []entry
	decoded chan struct{}
}

// decode decodes lines on all cores and takes them in their order. It reads so many bytes at a time.
func (r *Reader) decode(f io.Reader, size int) (changed bool, err error) {
	pending := make(chan *chunk, runtime.GOMAXPROCS(0))
	free := make(chan *chunk, cap(pending)+2) // one is read, one is taken
	var failed error
	var read int64
	go func() {
		defer close(pending)
		read, failed = blocks(f, size, free, func(c *chunk) {
			c.decoded = make(chan struct{})
			pending <- c
			go func() {
				c.entries = decodeLines(c.entries[:0], c.text)
				close(c.decoded)
			}()
		})
	}()
	for c := range pending {
		<-c.decoded
		for i := range c.entries {
			r.Run.take(&c.entries[i], &r.lines)
			changed = true
		}
		free <- c
	}
	r.at += read
	return changed, failed
}

// blocks calls use with whole lines, in memory from free as far as there is any, and returns how many
// bytes these have.
func blocks(f io.Reader, size int, free <-chan *chunk, use func(*chunk)) (used int64, err error) {
	var rest []byte
	for {
		c := &chunk{}
		select {
		case c = <-free: // whose text may be where rest is
		default:
		}
		have := len(rest)
		b := append(c.text[:0], rest...)
		b = slices.Grow(b, size)[:have+size]
		n, err := io.ReadFull(f, b[have:])
		b = b[:have+n]
		end := bytes.LastIndexByte(b[have:], '\n') + 1
		if end > 0 {
			end += have
		} else if len(b) > longest { // of one line, which is skipped with its rest
			end = len(b)
		}
		rest = b[end:]
		if c.text = b[:end]; end > 0 {
			use(c)
			used += int64(end)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return used, nil
		case err != nil:
			return used, err
		}
	}
}

// entry is a decoded line.
type entry struct {
	step event.StepDone // if rec.Event is nil
	rec  event.Record
	bad  bool
}

// decodeLines appends the entries of lines.
func decodeLines(out []entry, b []byte) []entry {
	out = slices.Grow(out, len(b)/256+1)
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		if len(line) == 0 {
			continue
		}
		out = append(out, entry{})
		e := &out[len(out)-1]
		rec, ok := event.DecodeStep(line, &e.step)
		if ok {
			e.rec = event.Record{Seq: rec.Seq, Time: rec.Time, Rank: rec.Rank}
			continue
		}
		if !e.decode(line) {
			out = out[:len(out)-1]
		}
	}
	return out
}

// decode decodes any line; false if a newer version wrote it, which is nothing bad.
func (e *entry) decode(line []byte) bool {
	rec, err := event.Decode(line)
	if errors.As(err, new(*event.UnknownError)) {
		return false
	}
	e.bad, e.rec = err != nil, rec
	if s, ok := rec.Event.(*event.StepDone); ok {
		e.step, e.rec.Event = *s, nil
	}
	return true
}

// Hostname is this host as events name it; "" if it has no name.
func Hostname() string {
	name, _ := os.Hostname()
	return name
}

// Stamp changes whenever something of a run changes that a page shows.
func Stamp(fsys afero.Fs, dir event.RunDir) string {
	var b []byte
	for _, file := range []string{dir.Events(), dir.Summary(), dir.EvaluationFile(), dir.BestEvaluationFile(), dir.Timeline(), labelsFile(dir)} {
		if info, err := fsys.Stat(file); err == nil {
			b = fmt.Appendf(b, "%d %d", info.Size(), info.ModTime().UnixNano())
		}
		b = append(b, ';')
	}
	return string(b)
}

// absent reports whether an error says that a file does not exist.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
