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
	s.w.Write(append(append(append(buf, prefix...), text...), '\n')) // nobody is left to hear that the log is broken
}

func (s *sink) printf(format string, args ...any) {
	s.line("", fmt.Appendf(nil, format, args...))
}

// rankOutput takes the output of one rank apart: to the sink, to its file, to the
// lines kept for the failure block.
type rankOutput struct {
	prefix string
	sink   *sink

	mu   sync.Mutex
	path string
	file *RankLog // nil: none
	tail tail
	dump crash.Dump // of goroutines, as the rank died
}

// openOutput starts the rank's file anew on the first attempt and goes on with
// it on later ones. A file that cannot be opened is a warning: the run matters more.
func openOutput(fs afero.Fs, dir string, rank, attempt int, s *sink) *rankOutput {
	o := &rankOutput{prefix: fmt.Sprintf("[rank %d] ", rank), sink: s}
	if dir == "" {
		return o
	}
	o.path = filepath.Join(dir, logName(rank))
	var err error
	if o.file, err = OpenRankLog(fs, dir, rank, attempt == 0, o.warn); err != nil {
		o.file = nil
		o.warn(err)
	}
	return o
}

func (o *rankOutput) warn(err error) {
	o.sink.printf("warning: cannot write %s: %v; until it can be written its lines appear here only", o.path, err)
}

// piece takes a line, or a piece of a long one. A dump of goroutines goes to the
// file alone: the failure block says what it comes down to.
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

// crashed is how the rank crashed; nil if it did not, or did not say.
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
