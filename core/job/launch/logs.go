package launch

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/appendfile"
	"github.com/trainctl/trainctl/core/base/crash"
)

// sink is the launcher's own log: whole lines, one writer at a time.
type sink struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sink) line(prefix string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf := make([]byte, 0, len(prefix)+len(text)+1)
	s.w.Write(append(append(append(buf, prefix...), text...), '\n')) // nobody is left to hear that the log is broken
}

func (s *sink) printf(format string, args ...any) {
	s.line("", fmt.Appendf(nil, format, args...))
}

// stampFormat is how a line of a rank's file begins: the time in UTC, of equal
// width on every line, and a space. ReadLogs reads it.
const stampFormat = "2006-01-02T15:04:05.000000Z07:00 "

// rankLog takes the output of one rank apart: to the sink, to its file with the
// time before each line, to the lines kept for the failure block.
type rankLog struct {
	prefix string
	sink   *sink

	mu   sync.Mutex
	path string
	file *appendfile.File // nil: none
	done io.Closer        // of the file
	tail tail
	dump crash.Dump // of goroutines, as the rank died
}

// openRankLog starts the file anew on the first attempt and goes on with it on
// later ones. A file that cannot be opened is a warning: the run matters more.
func openRankLog(fs afero.Fs, dir string, rank, attempt int, s *sink) *rankLog {
	l := &rankLog{prefix: fmt.Sprintf("[rank %d] ", rank), sink: s}
	if dir == "" {
		return l
	}
	l.path = filepath.Join(dir, logName(rank))
	err := fs.MkdirAll(dir, 0o755)
	if err == nil {
		l.file, l.done, err = appendfile.Open(fs, l.path, attempt == 0, missing)
	}
	if err != nil {
		l.file = nil
		l.warn(err)
	}
	return l
}

// missing is the line in the place of those that could not be written.
func missing(lost int, cause error) string {
	return time.Now().UTC().Format(stampFormat) + "[trainctl] " + appendfile.Missing("lines", lost, cause)
}

func (l *rankLog) warn(err error) {
	l.sink.printf("warning: cannot write %s: %v; until it can be written its lines appear here only", l.path, err)
}

// piece takes a line, or a piece of a long one. A dump of goroutines goes to the
// file alone: the failure block says what it comes down to.
func (l *rankLog) piece(piece []byte, first, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dump := first && l.dump.Take(string(piece))
	if first && !dump {
		l.tail.add(piece)
	}
	if !dump || l.file == nil {
		l.sink.line(l.prefix, piece)
	}
	if l.file == nil {
		return
	}
	var out []byte
	if first {
		out = time.Now().UTC().AppendFormat(out, stampFormat)
	}
	out = append(out, piece...)
	if last {
		out = append(out, '\n')
	}
	l.write(out)
}

// remark writes lines that the rank said otherwise than by its output.
func (l *rankLog) remark(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	var out []byte
	for line := range strings.Lines(text) {
		out = time.Now().UTC().AppendFormat(out, stampFormat)
		out = append(append(out, strings.TrimSuffix(line, "\n")...), '\n')
	}
	l.write(out)
}

func (l *rankLog) write(b []byte) {
	if err := l.file.Append(b, bytes.Count(b, []byte{'\n'})); err != nil {
		l.warn(err)
	}
}

func (l *rankLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.tail.lines...)
}

// crashed is how the rank crashed; nil if it did not, or did not say.
func (l *rankLog) crashed() *crash.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dump.Report()
}

func (l *rankLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	l.file.Flush()
	if err := l.done.Close(); err != nil {
		l.warn(err)
	}
	l.file = nil
}
