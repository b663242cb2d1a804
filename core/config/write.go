package config

import (
	"encoding"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Resolved returns the whole configuration as TOML, every key with its value.
// Loading it gives the same configuration.
func (c *Config) Resolved() []byte {
	w := writer{}
	w.table("", reflect.ValueOf(c.File))
	return []byte(w.text())
}

// Changes returns the configuration as TOML with the keys alone that differ from those of an empty file.
func (f File) Changes() []byte {
	w, plain := writer{}, writer{}
	w.table("", reflect.ValueOf(f))
	plain.table("", reflect.ValueOf(defaults(f.Optimizer.Name)))
	known := map[string]string{}
	for _, l := range plain.lines {
		known[l.path] = l.value
	}
	var kept []line
	for _, l := range slices.Backward(w.lines) {
		switch value, ok := known[l.path]; {
		case l.path == "": // of a table that is left out, or of one that follows
			if len(kept) > 0 && kept[len(kept)-1].path != "" {
				kept = append(kept, l)
			}
		case !ok || value != l.value:
			kept = append(kept, l)
		}
	}
	slices.Reverse(kept)
	return []byte((&writer{kept}).text())
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

// ownKeys lists the keys, tables (ending in a dot) and lists of tables, that may differ between the
// hosts of a job: how ranks are started, where files are, the host's network, who observes. launch.shares may not.
var ownKeys = []string{"launch.", "run.dir", "run.device_timeout", "dataset.options.root", "backend.options.interface", "backend.options.port_range",
	"backend.options.library", "plugins.", "observers[", "metrics.prometheus"}

// Common lists the settings that all ranks of a job must share, as "key = value"
// in the order of Resolved.
func (c *Config) Common() []string {
	var out []string
	for _, s := range c.Settings() {
		own := func(key string) bool {
			return s.Key == key || strings.ContainsAny(key[len(key)-1:], ".[") && strings.HasPrefix(s.Key, key)
		}
		if s.Key == "launch.shares" || !slices.ContainsFunc(ownKeys, own) {
			out = append(out, s.Key+" = "+s.Value)
		}
	}
	return out
}

// Show returns Resolved with the source of every value in a comment.
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

// comment adds aligned comments to the settings of a table. A value longer than
// most lines does not move the others to the right.
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

// table writes plain keys first and then nested tables, as TOML requires.
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
	w.arguments(path, v)
	for _, name := range names {
		f := v.Field(idx[name])
		at, head := join(path, name), join(header, name)
		switch {
		case !nested(f):
		case f.Kind() == reflect.Struct:
			w.header("[" + head + "]")
			w.tableAs(at, head, f)
		case f.Kind() == reflect.Map:
			w.options(at, head, f)
		default:
			for i := range f.Len() {
				w.header("[[" + head + "]]")
				w.tableAs(element(at, i), head, f.Index(i))
			}
		}
	}
}

func (w *writer) options(path, header string, v reflect.Value) {
	m := v.Interface().(map[string]any)
	if len(m) == 0 {
		return
	}
	w.header("[" + header + "]")
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

// nested reports whether a field needs its own header.
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
