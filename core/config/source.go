package config

import (
	"strings"
	"unicode/utf8"
)

// source is a text with settings: the file, an environment variable, or a flag.
type source struct {
	name string
	text string
	rank int    // files before environment before flags, in a report
	env  string // name of the variable, if the source is one
	flag string // spelling of the flag, if the source is one
}

// span is a part of a source's text, in bytes.
type span struct{ start, end int }

// place is where a key was given.
type place struct {
	src *source
	key span
	val span // empty (0, 0) for tables that only a header names
}

// position converts a byte offset to line and column, both from 1; the column
// counts characters.
func (s *source) position(off int) (line, col int) {
	off = max(0, min(off, len(s.text)))
	for off > 0 && off < len(s.text) && !utf8.RuneStart(s.text[off]) {
		off-- // the TOML parser sometimes points into a character
	}
	before := s.text[:off]
	line = 1 + strings.Count(before, "\n")
	head := before[strings.LastIndexByte(before, '\n')+1:]
	return line, 1 + utf8.RuneCountInString(head)
}

// line returns the line that holds off, without its end, and where it starts.
func (s *source) line(off int) (text string, start int) {
	off = max(0, min(off, len(s.text)))
	start = strings.LastIndexByte(s.text[:off], '\n') + 1
	rest := s.text[start:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimSuffix(rest, "\r"), start
}
