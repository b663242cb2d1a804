package launch

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/appendfile"
)

// stampFormat is how a line of a rank's file begins: the time in UTC, of equal
// width on every line, and a space. ReadLogs reads it.
const stampFormat = "2006-01-02T15:04:05.000000Z07:00 "

// RankLog writes the log of one rank, which ReadLogs reads. Lines that a full
// disk refuses are lost; the file goes on in whole lines once there is room and
// says how many are missing. A nil *RankLog writes nothing. Its methods may be
// called from any goroutine.
type RankLog struct {
	mu   sync.Mutex
	file *appendfile.File // nil: closed
	done io.Closer
	warn func(error)
}

// OpenRankLog opens the log of a rank in a run's logs directory, which it makes
// if need be; with anew it empties an old one. warn, called once for every time
// in which nothing can be written, must not call the log.
func OpenRankLog(fs afero.Fs, dir string, rank int, anew bool, warn func(error)) (*RankLog, error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, done, err := appendfile.Open(fs, filepath.Join(dir, logName(rank)), anew, missing)
	if err != nil {
		return nil, err
	}
	return &RankLog{file: file, done: done, warn: warn}, nil
}

// missing is the line in the place of those that could not be written.
func missing(lost int, cause error) string {
	return time.Now().UTC().Format(stampFormat) + "[trainctl] " + appendfile.Missing("lines", lost, cause)
}

// piece writes a line, or a piece of a long one.
func (l *RankLog) piece(piece []byte, first, last bool) {
	l.write(func(out []byte) []byte {
		if first {
			out = time.Now().UTC().AppendFormat(out, stampFormat)
		}
		out = append(out, piece...)
		if last {
			out = append(out, '\n')
		}
		return out
	})
}

// Lines writes text of whole lines, with the time before each; the last may
// lack its end.
func (l *RankLog) Lines(text string) {
	l.write(func(out []byte) []byte {
		for line := range strings.Lines(text) {
			out = time.Now().UTC().AppendFormat(out, stampFormat)
			out = append(append(out, strings.TrimSuffix(line, "\n")...), '\n')
		}
		return out
	})
}

// write appends what compose adds to an empty slice, in the order of its times.
func (l *RankLog) write(compose func([]byte) []byte) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return
	}
	b := compose(nil)
	if err := l.file.Append(b, bytes.Count(b, []byte{'\n'})); err != nil {
		l.warn(err)
	}
}

// Close says what is missing, if that can be written now, and closes the file.
func (l *RankLog) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	l.file.Flush()
	l.file = nil
	return l.done.Close()
}
