package config

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Resolved is the whole configuration as TOML, every key with its value. It
// loads to the same configuration again.
func (c *Config) Resolved() []byte {
	w := writer{}
	w.table("", reflect.ValueOf(c.File))
	return []byte(w.text())
}

// Setting is one key of the resolved configuration.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // as TOML
	Source string `json:"source"`
}

// Settings lists every key in the order of Resolved.
func (c *Config) Settings() []Setting {
	w := writer{}
	w.table("", reflect.ValueOf(c.File))
	var out []Setting
	for _, l := range w.lines {
		if l.path != "" {
			out = append(out, Setting{l.path, l.value, c.Origin(l.path).String()})
		}
	}
	return out
}

// Show is Resolved with the source of every value beside it.
func (c *Config) Show() []byte {
	w := writer{}
	w.table("", reflect.ValueOf(c.File))
	w.comment(func(path string) string { return c.Origin(path).String() })
	return []byte(w.text())
}

// line is a header (path empty) or a setting.
type line struct {
	path    string
	text    string
	value   string
	comment string
}

type writer struct{ lines []line }

func (w *writer) text() string {
	var b strings.Builder
	for i, l := range w.lines {
		if l.path == "" && i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.text)
		b.WriteString(l.comment)
		b.WriteByte('\n')
	}
	return b.String()
}

// comment aligns a comment behind every setting of a table; a value longer
// than most lines does not push the others to the right.
func (w *writer) comment(of func(path string) string) {
	const widest = 48
	for start := 0; start < len(w.lines); {
		end := start + 1
		for end < len(w.lines) && w.lines[end].path != "" {
			end++
		}
		width := 0
		for _, l := range w.lines[start:end] {
			if n := utf8.RuneCountInString(l.text); l.path != "" && n <= widest {
				width = max(width, n)
			}
		}
		for i := start; i < end; i++ {
			if l := &w.lines[i]; l.path != "" {
				l.comment = strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l.text))) + "  # " + of(l.path)
			}
		}
		start = end
	}
}

// table writes plain keys first and nested tables after them, as TOML needs.
func (w *writer) table(path string, v reflect.Value) { w.tableAs(path, path, v) }

// tableAs writes a table whose header differs from its path: entries of an
// array of tables have no index in the header.
func (w *writer) tableAs(path, header string, v reflect.Value) {
	names, idx := fields(v.Type())
	for _, name := range names {
		f := v.Field(idx[name])
		if s, ok := formatValue(f); ok && !nested(f) {
			w.setting(join(path, name), name, s)
		}
	}
	for _, name := range names {
		f := v.Field(idx[name])
		at, head := join(path, name), join(header, name)
		switch {
		case !nested(f):
		case f.Kind() == reflect.Struct:
			w.header("[" + head + "]")
			w.tableAs(at, head, f)
		case f.Kind() == reflect.Map:
			w.options(at, f)
		default:
			for i := range f.Len() {
				w.header("[[" + head + "]]")
				w.tableAs(element(at, i), head, f.Index(i))
			}
		}
	}
}

func (w *writer) options(path string, v reflect.Value) {
	m := v.Interface().(map[string]any)
	if len(m) == 0 {
		return
	}
	w.header("[" + path + "]")
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s, ok := formatValue(reflect.ValueOf(m[k])); ok {
			w.setting(join(path, k), join("", k), s)
		}
	}
}

func (w *writer) header(s string) { w.lines = append(w.lines, line{text: s}) }

func (w *writer) setting(path, name, value string) {
	w.lines = append(w.lines, line{path: path, text: name + " = " + value, value: value})
}

// nested reports whether a field needs a header of its own.
func nested(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.Struct:
		_, text := f.Interface().(encoding.TextMarshaler)
		return !text
	case reflect.Map:
		return true
	case reflect.Slice:
		return f.Type().Elem().Kind() == reflect.Struct
	}
	return false
}

// formatValue gives the TOML of a value; false for what is not given: nil
// pointers and empty lists, whose absence is their value.
func formatValue(v reflect.Value) (string, bool) {
	if !v.IsValid() {
		return "", false
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return quote(formatDuration(x)), true
	case encoding.TextMarshaler:
		return formatText(x)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return formatValue(v.Elem())
	case reflect.String:
		return quote(v.String()), true
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case reflect.Float64, reflect.Float32:
		return formatFloat(v.Float()), true
	case reflect.Slice, reflect.Array:
		return formatList(v)
	case reflect.Map:
		return formatMap(v)
	}
	return fmt.Sprint(v.Interface()), true
}

// formatText writes a type of its own; one that reads itself from TOML takes
// numbers without quotes.
func formatText(m encoding.TextMarshaler) (string, bool) {
	b, err := m.MarshalText()
	if err != nil {
		return "", false
	}
	if _, err := strconv.Atoi(string(b)); err == nil && custom(reflect.TypeOf(m)) {
		return string(b), true
	}
	return quote(string(b)), true
}

func formatList(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return "", false
	}
	var parts []string
	for i := range v.Len() {
		if s, ok := formatValue(v.Index(i)); ok {
			parts = append(parts, s)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

func formatMap(v reflect.Value) (string, bool) {
	m, ok := v.Interface().(map[string]any)
	if !ok {
		return "", false
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s, ok := formatValue(reflect.ValueOf(m[k])); ok {
			parts = append(parts, join("", k)+" = "+s)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", true
}

// formatFloat always looks like a float, so that it stays one when read.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimSuffix(fmt.Sprintf("%+f", f), "inity"))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// formatDuration drops the zero parts that time.Duration prints: "5m0s".
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// quote writes a basic TOML string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
