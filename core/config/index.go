package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// index maps the path of every key and array element of a TOML text to the
// places of key and value.
//
// It does not validate: the text went through the TOML parser before, so the
// scanner only has to know where tokens end. On other text it gives up
// somewhere and returns what it found.
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

// list reads what stands between brackets, calling item at each entry.
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

// unescape resolves the escapes of a basic string.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	simple := map[byte]string{'b': "\b", 't': "\t", 'n': "\n", 'f': "\f", 'r': "\r", 'e': "\x1b", '"': `"`, '\\': `\`}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if n := digits[s[i]]; n > 0 && i+n < len(s) {
			r, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err == nil {
				b.WriteString(string(rune(r)))
			}
			i += n
			continue
		}
		b.WriteString(simple[s[i]])
	}
	return b.String()
}

// join appends a key to a path, quoted where TOML asks for it.
func join(path, key string) string {
	if !bare(key) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func element(path string, n int) string { return fmt.Sprintf("%s[%d]", path, n) }

// parent cuts the last key or index off a path.
func parent(path string) string {
	inside := false
	for i := len(path) - 1; i >= 0; i-- {
		switch c := path[i]; {
		case c == '"' && !escaped(path, i):
			inside = !inside
		case !inside && (c == '.' || c == '['):
			return path[:i]
		}
	}
	return ""
}

// escaped reports whether the byte at i follows an odd number of backslashes.
func escaped(s string, i int) bool {
	n := 0
	for n < i && s[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func bare(key string) bool {
	for _, r := range key {
		if r >= utf8.RuneSelf || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", r) {
			return false
		}
	}
	return key != ""
}
