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

// stampFormat is the beginning of each line of a rank's file: the time in UTC, of
// fixed width, and a space. ReadLogs parses it.
const stampFormat = "2006-01-02T15:04:05.000000Z07:00 "

// RankLog writes the log of one rank, which ReadLogs reads. Lines that do not fit
// on a full disk are lost; once there is room, the file continues with whole lines
// and says how many are missing. A nil *RankLog writes nothing. It is safe for
// concurrent use.
type RankLog struct {
	mu   sync.Mutex
	file *appendfile.File // nil: closed
	done io.Closer
	warn func(error)
}

// OpenRankLog opens the log of a rank in a run's logs directory, which it creates
// if needed; with anew it truncates an existing log. warn is called once for each
// period in which nothing can be written, and must not call the log.
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

// missing is the line that replaces those that could not be written.
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

// write appends what compose returns, under the lock, so that times are in order.
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

// Close writes how many lines are missing, if that can be written, and closes the file.
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
