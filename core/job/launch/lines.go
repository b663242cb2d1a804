package launch

import (
	"bytes"
	"slices"
	"strings"
)

const (
	maxChunk  = 64 << 10 // of a line that does not end
	keepLines = 20       // per rank, for the failure block
	keepBytes = 2 << 10  // of each
)

// splitter cuts a stream into lines. It passes on a line longer than maxChunk in
// pieces, which bounds the memory for a stream without newlines.
type splitter struct {
	out  func(piece []byte, first, last bool)
	part []byte
	mid  bool // a piece of this line has gone out
}

func (s *splitter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		s.emit(append(s.part, b[:i]...), true)
		b = b[i+1:]
	}
	s.part = append(s.part, b...)
	for len(s.part) >= maxChunk {
		rest := s.part[maxChunk:]
		s.emit(s.part[:maxChunk:maxChunk], false)
		s.part = append(s.part[:0], rest...)
	}
	return n, nil
}

func (s *splitter) emit(piece []byte, last bool) {
	s.out(piece, !s.mid, last)
	s.mid = !last
	if last {
		s.part = s.part[:0]
	}
}

// flush passes on an unfinished last line.
func (s *splitter) flush() {
	if len(s.part) > 0 || s.mid {
		s.emit(s.part, true)
	}
}

// tail keeps the last lines, each cut to a readable length, and the first line of
// a long error or stack.
type tail struct{ lines []string }

func (t *tail) add(line []byte) {
	if len(line) > keepBytes {
		line = append(slices.Clip(line[:keepBytes:keepBytes]), "…"...)
	}
	if len(t.lines) == keepLines {
		old := 0
		if saysWhy(t.lines[0]) {
			old = 1
		}
		t.lines = slices.Delete(t.lines, old, old+1)
	}
	t.lines = append(t.lines, string(line))
}

// saysWhy recognises how error messages of trainctl and Go's runtime begin.
func saysWhy(line string) bool {
	return strings.HasPrefix(line, "error: ") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}
