package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"
)

// LogLine is one line of a rank's log.
type LogLine struct {
	Time time.Time // when the launcher read it, UTC; a line without a time has that of the line before
	Rank int
	Text string
}

// LogReader merges the logs of several ranks in the order of time. It is not safe
// for concurrent use.
type LogReader struct{ files []*logFile }

// logFile is one rank's log and the line that comes next.
type logFile struct {
	rank int
	file afero.File
	r    *bufio.Reader
	part string // of a line whose end is not written yet
	next LogLine
	have bool
}

// ReadLogs opens the logs in a run's logs directory: those of the given ranks, or
// all if none is given. The error for a rank without a log matches fs.ErrNotExist
// and lists the ranks that have one.
func ReadLogs(fsys afero.Fs, dir string, ranks ...int) (*LogReader, error) {
	there, err := loggedRanks(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(ranks) == 0 {
		ranks = there
	}
	l := &LogReader{}
	for _, rank := range ranks {
		if !slices.Contains(there, rank) {
			return nil, errors.Join(fmt.Errorf("%s: no log of rank %d, there are logs of ranks %v: %w", dir, rank, there, fs.ErrNotExist), l.Close())
		}
		f, err := fsys.Open(filepath.Join(dir, logName(rank)))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.files = append(l.files, &logFile{rank: rank, file: f, r: bufio.NewReader(f)})
	}
	return l, nil
}

func logName(rank int) string { return fmt.Sprintf("rank-%d.log", rank) }

func loggedRanks(fsys afero.Fs, dir string) (ranks []int, err error) {
	entries, err := afero.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".log"), "rank-")
		if rank, err := strconv.Atoi(digits); ok && err == nil && e.Name() == logName(rank) {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks, nil
}

// Ranks are those whose logs are read.
func (l *LogReader) Ranks() (ranks []int) {
	for _, f := range l.files {
		ranks = append(ranks, f.rank)
	}
	return ranks
}

// Tail leaves out all but the last n bytes or so of each file. Call it before Next.
func (l *LogReader) Tail(n int64) error {
	for _, f := range l.files {
		info, err := f.file.Stat()
		if err == nil && info.Size() > n {
			if _, err = f.file.Seek(info.Size()-n, io.SeekStart); err == nil {
				_, err = f.r.ReadString('\n') // the rest of a line
			}
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("log of rank %d: %w", f.rank, err)
		}
	}
	return nil
}

// Next returns the earliest line not returned yet, false when there is none. A
// file that is still being written may have more later.
func (l *LogReader) Next() (LogLine, bool, error) {
	var first *logFile
	for _, f := range l.files {
		if err := f.fill(); err != nil {
			return LogLine{}, false, err
		}
		if f.have && (first == nil || f.next.Time.Before(first.next.Time)) {
			first = f
		}
	}
	if first == nil {
		return LogLine{}, false, nil
	}
	first.have = false
	return first.next, true, nil
}

// fill reads a whole line. It keeps an unfinished one until the rest is written.
func (f *logFile) fill() error {
	if f.have {
		return nil
	}
	text, err := f.r.ReadString('\n')
	f.part += text
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log of rank %d: %w", f.rank, err)
	}
	f.take(strings.TrimSuffix(f.part, "\n"))
	f.part = ""
	return nil
}

func (f *logFile) take(line string) {
	f.next.Rank, f.have = f.rank, true
	f.next.Text = line
	if len(line) < stampLen {
		return
	}
	if t, err := time.Parse(stampFormat, line[:stampLen]); err == nil {
		f.next.Time, f.next.Text = t, line[stampLen:]
	}
}

// stampLen is the length of a time in UTC, whose zone is one letter.
const stampLen = len("2006-01-02T15:04:05.000000Z ")

// Rest returns the last line of each file that does not end in a newline, as when
// a rank was killed together with its launcher.
func (l *LogReader) Rest() (out []LogLine) {
	for _, f := range l.files {
		if f.part != "" {
			f.take(f.part)
			out, f.part, f.have = append(out, f.next), "", false
		}
	}
	return out
}

// Close closes the files.
func (l *LogReader) Close() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.file.Close())
	}
	return errors.Join(errs...)
}
