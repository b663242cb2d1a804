package config

import "strings"

// index maps the path of every key and array element of a TOML text to the
// positions of key and value.
//
// It does not validate: the TOML parser has accepted the text, so the scanner
// only has to know where tokens end. On other text it stops somewhere and
// returns what it found.
func index(src *source) map[string]place {
	s := &scanner{src: src, text: src.text, out: map[string]place{}, tables: map[string]int{}}
	s.document()
	return s.out
}

type scanner struct {
	src    *source
	text   string
	i      int
	out    map[string]place
	tables map[string]int // array of tables → entries so far
}

// part is one part of a dotted key.
type part struct {
	name string
	span span
}

func (s *scanner) document() {
	table := ""
	for s.blank(true); s.i < len(s.text); s.blank(true) {
		before := s.i
		if s.peek() == '[' {
			table = s.header()
		} else {
			s.keyValue(table)
		}
		if s.i == before {
			return
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the path its keys belong to.
func (s *scanner) header() string {
	start := s.i
	s.i++
	array := s.accept('[')
	parts := s.key()
	s.blank(false)
	s.accept(']')
	if array {
		s.accept(']')
	}
	path := ""
	for n, p := range parts {
		path = join(path, p.name)
		s.mark(path, place{key: p.span})
		last := n == len(parts)-1
		if last && array {
			s.tables[path]++
		}
		if k := s.tables[path]; k > 0 {
			path = element(path, k-1)
		}
		if last {
			s.out[path] = place{src: s.src, key: span{start, s.i}}
		}
	}
	return path
}

// keyValue reads "a.b = value" below a table.
func (s *scanner) keyValue(table string) {
	path := table
	parts := s.key()
	for _, p := range parts {
		path = join(path, p.name)
		s.mark(path, place{key: p.span})
	}
	s.blank(false)
	if !s.accept('=') || len(parts) == 0 {
		s.i = len(s.text)
		return
	}
	s.blank(false)
	val := s.value(path)
	s.out[path] = place{src: s.src, key: parts[len(parts)-1].span, val: val}
}

// mark records a path at its first mention only.
func (s *scanner) mark(path string, p place) {
	if _, ok := s.out[path]; !ok {
		p.src = s.src
		s.out[path] = p
	}
}

func (s *scanner) key() []part {
	var parts []part
	for {
		s.blank(false)
		p := s.keyPart()
		if p.span.start == p.span.end {
			return parts
		}
		parts = append(parts, p)
		s.blank(false)
		if !s.accept('.') {
			return parts
		}
	}
}

func (s *scanner) keyPart() part {
	start := s.i
	if q := s.peek(); q == '"' || q == '\'' {
		s.quoted()
		body := s.text[start+1 : max(start+1, s.i-1)]
		if q == '"' {
			body = unescape(body)
		}
		return part{body, span{start, s.i}}
	}
	for s.i < len(s.text) && !strings.ContainsRune(" \t\r\n.=[]{},#\"'", rune(s.text[s.i])) {
		s.i++
	}
	return part{s.text[start:s.i], span{start, s.i}}
}

// value skips a value, recording the keys and elements inside it.
func (s *scanner) value(path string) span {
	start := s.i
	switch s.peek() {
	case '"', '\'':
		s.quoted()
	case '[':
		s.list(']', func(n int) {
			at := element(path, n)
			v := s.value(at)
			s.out[at] = place{src: s.src, key: v, val: v}
		})
	case '{':
		s.list('}', func(int) { s.keyValue(path) })
	default:
		for s.i < len(s.text) && !strings.ContainsRune(",]}#\r\n", rune(s.text[s.i])) {
			s.i++
		}
		for s.i > start && (s.text[s.i-1] == ' ' || s.text[s.i-1] == '\t') {
			s.i--
		}
	}
	return span{start, s.i}
}

// list reads the text between brackets and calls item at each entry.
func (s *scanner) list(end byte, item func(n int)) {
	s.i++
	for n := 0; ; n++ {
		s.blank(true)
		if s.i >= len(s.text) || s.accept(end) {
			return
		}
		before := s.i
		item(n)
		s.blank(true)
		s.accept(',')
		if s.i == before {
			s.i = len(s.text)
		}
	}
}

// quoted skips a string of any of the four kinds.
func (s *scanner) quoted() {
	q := s.text[s.i]
	triple := strings.Repeat(string(q), 3)
	end := string(q)
	if strings.HasPrefix(s.text[s.i:], triple) {
		end = triple
	}
	s.i += len(end)
	for s.i < len(s.text) {
		switch {
		case q == '"' && s.text[s.i] == '\\':
			s.i = min(s.i+2, len(s.text))
		case strings.HasPrefix(s.text[s.i:], end):
			s.i += len(end)
			for range 2 { // a multi-line string may end in quotes of its own
				if end == triple && s.peek() == q {
					s.i++
				}
			}
			return
		default:
			s.i++
		}
	}
}

// blank skips spaces and, where lines may end, also line ends and comments.
func (s *scanner) blank(lines bool) {
	for s.i < len(s.text) {
		switch c := s.text[s.i]; {
		case c == ' ' || c == '\t':
		case lines && (c == '\n' || c == '\r'):
		case lines && c == '#':
			n := strings.IndexByte(s.text[s.i:], '\n')
			if n < 0 {
				s.i = len(s.text)
				return
			}
			s.i += n
		default:
			return
		}
		s.i++
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.text) {
		return s.text[s.i]
	}
	return 0
}

func (s *scanner) accept(c byte) bool {
	if s.i < len(s.text) && s.text[s.i] == c {
		s.i++
		return true
	}
	return false
}
