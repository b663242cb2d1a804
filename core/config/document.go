package config

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Document is a TOML file that is not a configuration but is read as strictly, such as a sweep.
type Document struct {
	report *report
	root   map[string]any
}

// ParseDocument decodes the text of a file into the struct that v points to, whose fields have toml
// tags like those of a configuration's tables and keep their values where the file has no key. name
// stands for the file's path in messages. The error is that the text is not TOML; what does not fit
// the struct is in the error of [Document.Check].
func ParseDocument(name, text string, v any) (*Document, error) {
	r, root, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	r.foreign = true
	decoder{r}.table("", root, reflect.ValueOf(v).Elem())
	return &Document{r, root}, nil
}

// Given reports whether the file has a key or table.
func (d *Document) Given(path string) bool { return d.report.given(path) }

// Check adds problems at paths of the document, and returns all that were found as an [*Error]; nil
// if there are none.
func (d *Document) Check(l usererr.List) error {
	d.report.problems("", l)
	if !d.report.failed() {
		return nil
	}
	return &Error{Diagnostics: d.report.sorted()}
}

// Include adds problems of other files, each once.
func (d *Document) Include(list []Diagnostic) {
	for _, p := range list {
		if !slices.ContainsFunc(d.report.list, func(f found) bool { return f.Diagnostic == p }) {
			d.report.list = append(d.report.list, found{Diagnostic: p, rank: 1})
		}
	}
}

// Entry is a value in a table whose keys are keys of a configuration, as --set takes them.
type Entry struct {
	Key   string // "optimizer.lr", "model.layers[0].bias"
	Path  string // in the document
	Value any    // int64, float64, string, bool, []any, or map[string]any of an inline table
}

// Element is the path of an element of the entry's list.
func (e Entry) Element(n int) string { return element(e.Path, n) }

// Entries lists the values in a table in the order of the file. Dotted keys, tables within the table
// and quoted keys mean the same: optimizer.lr, [TABLE.optimizer] with lr, "optimizer.lr".
func (d *Document) Entries(table string) []Entry {
	t, _ := d.root[table].(map[string]any)
	var out []Entry
	d.entries(&out, table, "", t)
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Compare(d.report.places[a.Path].key.start, d.report.places[b.Path].key.start)
	})
	return out
}

func (d *Document) entries(to *[]Entry, path, key string, table map[string]any) {
	for name, v := range table {
		at, dotted := join(path, name), name
		if key != "" {
			dotted = key + "." + name
		}
		inner, isTable := v.(map[string]any)
		if place := d.report.places[at]; isTable && place.val.end == place.val.start {
			d.entries(to, at, dotted, inner)
			continue
		}
		if list, ok := elements(v); ok {
			v = list
		}
		*to = append(*to, Entry{dotted, at, v})
	}
}
