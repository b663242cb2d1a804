package launch

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/spf13/afero"

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
	s.w.Write(append(append(append(buf, prefix...), text...), '\n')) // an error of the log itself cannot be reported anywhere
}

func (s *sink) printf(format string, args ...any) {
	s.line("", fmt.Appendf(nil, format, args...))
}

// rankOutput writes the output of one rank to the sink and to its file, and keeps
// the last lines for the failure block.
type rankOutput struct {
	prefix string
	sink   *sink

	mu   sync.Mutex
	path string
	file *RankLog // nil: none
	tail tail
	dump crash.Dump // the goroutine dump printed as the rank died
}

// openOutput opens the rank's file, which it truncates with anew. A file that cannot be opened is a warning and does not end the run.
func openOutput(fs afero.Fs, dir string, rank int, anew bool, s *sink) *rankOutput {
	o := &rankOutput{prefix: fmt.Sprintf("[rank %d] ", rank), sink: s}
	if dir == "" {
		return o
	}
	o.path = filepath.Join(dir, logName(rank))
	var err error
	if o.file, err = OpenRankLog(fs, dir, rank, anew, o.warn); err != nil {
		o.file = nil
		o.warn(err)
	}
	return o
}

func (o *rankOutput) warn(err error) {
	o.sink.printf("warning: cannot write %s: %v; until it can be written its lines appear only here", o.path, err)
}

// piece takes a line, or a piece of a long one. A goroutine dump goes only to the
// file: the failure block has a summary of it.
func (o *rankOutput) piece(piece []byte, first, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dump := first && o.dump.Take(string(piece))
	if first && !dump {
		o.tail.add(piece)
	}
	if !dump || o.file == nil {
		o.sink.line(o.prefix, piece)
	}
	o.file.piece(piece, first, last)
}

func (o *rankOutput) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.tail.lines...)
}

// crashed is how the rank crashed; nil if it did not, or printed no dump.
func (o *rankOutput) crashed() *crash.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dump.Report()
}

func (o *rankOutput) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.file.Close(); err != nil {
		o.warn(err)
	}
	o.file = nil
}
