package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// aim is the part of a setting that a problem points at.
type aim uint8

const (
	atValue aim = iota
	atKey
)

// report collects problems by key and finds their positions.
type report struct {
	file   *source
	places map[string]place
	list   []found
	bad    map[string]bool // keys that already have an error
	meant  map[string]bool // keys that an unknown key was probably meant to be

	foreign bool // the file is not a configuration, so that names of its keys do not help
}

type found struct {
	Diagnostic
	rank, start int
}

func newReport(file *source) *report {
	return &report{file: file, places: map[string]place{}, bad: map[string]bool{}, meant: map[string]bool{}}
}

func (r *report) given(path string) bool { _, ok := r.places[path]; return ok }

// errorf adds a problem for a path. Further problems of the same path are dropped.
func (r *report) errorf(path string, at aim, help, format string, args ...any) {
	if r.bad[path] {
		return
	}
	r.bad[path] = true
	src, sp := r.locate(path, at)
	r.add(SeverityError, path, src, sp, help, fmt.Sprintf(format, args...))
}

// warnf adds a problem that does not stop a run.
func (r *report) warnf(path, help, format string, args ...any) {
	src, sp := r.locate(path, atKey)
	r.add(SeverityWarning, path, src, sp, help, fmt.Sprintf(format, args...))
}

// problems adds the problems that a package found in its table.
func (r *report) problems(table string, l usererr.List) {
	var prefixed usererr.List
	prefixed.Under(table, l)
	for _, p := range prefixed {
		if r.meant[p.Key] && !r.given(p.Key) {
			continue // caused by the misspelt key, which is reported
		}
		at := atValue
		if strings.HasPrefix(p.Detail, "unknown key") { // the wording of sdk.CheckOptions
			at = atKey
		}
		r.errorf(p.Key, at, p.Help, "%s", p.Detail)
	}
}

// locate finds the position closest to a path: the value or key itself, else
// the table that lacks it, else the start of the file.
func (r *report) locate(path string, at aim) (*source, span) {
	for p := path; p != ""; p = parent(p) {
		pl, ok := r.places[p]
		if !ok {
			continue
		}
		if p == path && at == atValue && pl.val.end > pl.val.start {
			return pl.src, pl.val
		}
		return pl.src, pl.key
	}
	return r.file, span{}
}

func (r *report) add(sev Severity, key string, src *source, sp span, help, summary string) {
	text, start := src.line(sp.start)
	sp.start = min(sp.start, start+len(text)) // the end of the line, not past it
	line, col := src.position(sp.start)
	_, end := src.position(min(max(sp.end, sp.start), start+len(text)))
	d := Diagnostic{
		Severity: sev, Key: key, Summary: summary, Help: help,
		File: src.name, Line: line, Col: col, EndCol: max(col, end), Snippet: text,
	}
	if sp.end == sp.start {
		d.Snippet = ""
	}
	r.list = append(r.list, found{d, src.rank, sp.start})
}

// sorted returns the problems in the order of their sources and positions.
func (r *report) sorted() []Diagnostic {
	slices.SortStableFunc(r.list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.start, b.start), strings.Compare(a.Key, b.Key))
	})
	var out []Diagnostic
	for _, f := range r.list {
		out = append(out, f.Diagnostic)
	}
	return out
}

func (r *report) failed() bool {
	return slices.ContainsFunc(r.list, func(f found) bool { return f.Severity == SeverityError })
}

// Refuse adds errors that only a caller who knows the data can find, at their
// positions, and returns the whole report as an [*Error].
func (c *Config) Refuse(l usererr.List) error {
	for _, p := range l {
		c.report.errorf(p.Key, atValue, p.Help, "%s", p.Detail)
	}
	return &Error{Diagnostics: c.report.sorted()}
}

// Warn adds a warning that only a caller who knows the machine can give.
func (c *Config) Warn(key, help, summary string) {
	c.report.warnf(key, help, "%s", summary)
	c.Warnings = c.report.sorted()
}
