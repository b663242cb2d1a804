package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/sdk"
)

// Sum returns the SHA-256 sum of the plugin at a path; kind is "backend", "precision", "dataset", "observer" or "layer".
type Sum func(kind, path string) (string, error)

// Lock writes the checksums of plugins given by path into the text of a file, as
// sha256 of their tables; order, comments and spaces do not change. It returns
// the tables in the order of a file, without Options. All problems are one
// [*Error], whose causes include the errors of sum.
func Lock(name string, text []byte, sum Sum) ([]byte, []PluginTable, error) {
	body := withoutMark(string(text))
	src := &source{name: name, text: body}
	r := newReport(src)
	root := map[string]any{}
	if _, err := toml.Decode(body, &root); err != nil {
		r.syntax(err)
		return nil, nil, &Error{Diagnostics: r.sorted()}
	}
	r.places = index(src)
	l := locker{report: r, sum: sum, body: body}
	for _, t := range rawPlugins(root) {
		if registry.IsPath(t.Plugin) {
			l.lock(t.PluginTable)
		}
	}
	if r.failed() {
		return nil, nil, &Error{Diagnostics: r.sorted(), Causes: l.causes}
	}
	mark := string(text)[:len(text)-len(body)]
	return []byte(mark + l.edited()), l.tables, nil
}

// Named returns the tables of a file that give a plugin by name, without Options. The
// error is an [*Error].
func Named(name string, text []byte) (named []PluginTable, err error) {
	r := newReport(&source{name: name, text: withoutMark(string(text))})
	root := map[string]any{}
	if _, err := toml.Decode(withoutMark(string(text)), &root); err != nil {
		r.syntax(err)
		return nil, &Error{Diagnostics: r.sorted()}
	}
	for _, t := range rawPlugins(root) {
		if t.Plugin != "" && !registry.IsPath(t.Plugin) {
			named = append(named, t.PluginTable)
		}
	}
	return named, nil
}

// rawPlugin is a plugin's table as the parser returns it.
type rawPlugin struct {
	PluginTable // without Options
	raw         map[string]any
}

// rawPlugins lists the tables of plugins in a file.
func rawPlugins(root map[string]any) (tables []rawPlugin) {
	add := func(table, kind string, raw any) {
		t, _ := raw.(map[string]any)
		plugin, _ := t["plugin"].(string)
		sum, _ := t["sha256"].(string)
		version, _ := t["version"].(string)
		tables = append(tables, rawPlugin{PluginTable{Table: table, Kind: kind, Plugin: plugin, SHA256: sum, Version: version}, t})
	}
	for _, kind := range []string{"backend", "precision", "dataset"} {
		add(kind, kind, root[kind])
	}
	for _, l := range []struct {
		name string
		kind sdk.Kind
	}{{"observers", sdk.KindObserver}, {"layer_plugins", sdk.KindLayer}} {
		list, _ := elements(root[l.name])
		for i, raw := range list {
			add(element(l.name, i), string(l.kind), raw)
		}
	}
	return tables
}

// locker collects the changes.
type locker struct {
	*report
	body   string
	sum    Sum
	tables []PluginTable
	edits  []edit
	causes []error
}

// edit replaces a span of the text.
type edit struct {
	span
	text string
}

func (l *locker) lock(t PluginTable) {
	sum, err := l.sum(t.Kind, t.Plugin)
	if err != nil {
		msg, help := startError(err)
		l.errorf(t.Table+".plugin", atValue, help, "%s", msg)
		l.causes = append(l.causes, err)
		return
	}
	was := t.SHA256
	t.SHA256 = sum
	l.tables = append(l.tables, t)
	if sum == was {
		return
	}
	e := l.edit(t)
	if !l.harmless(e, t) {
		l.errorf(t.Table+".plugin", atValue, fmt.Sprintf("write it by hand: sha256 = %q", sum), "the checksum cannot be inserted next to a plugin written in this form")
		return
	}
	l.edits = append(l.edits, e)
}

// edit returns the change of the text for a checksum: it replaces the old one, or
// inserts a line below the plugin, or an entry after it in an inline table.
func (l *locker) edit(t PluginTable) edit {
	value := quote(t.SHA256)
	if old, ok := l.places[t.Table+".sha256"]; ok {
		return edit{old.val, value}
	}
	plugin := l.places[t.Table+".plugin"]
	at := plugin.val.end
	first := strings.LastIndexByte(l.body[:plugin.key.start], '\n') + 1
	head := l.body[first:plugin.key.start] // indentation, and "backend." of a dotted key
	if strings.ContainsAny(head, "{,=") {
		return edit{span{at, at}, ", sha256 = " + value}
	}
	line := head + "sha256 = " + value
	next := strings.IndexByte(l.body[at:], '\n')
	if next < 0 {
		return edit{span{len(l.body), len(l.body)}, "\n" + line}
	}
	at += next + 1
	end := "\n"
	if strings.HasSuffix(l.body[:at], "\r\n") {
		end = "\r\n"
	}
	return edit{span{at, at}, line + end}
}

// harmless reports whether an edit sets the checksum and changes nothing else.
func (l *locker) harmless(e edit, t PluginTable) bool {
	var got map[string]any
	if _, err := toml.Decode(l.body[:e.start]+e.text+l.body[e.end:], &got); err != nil {
		return false
	}
	var want map[string]any
	if _, err := toml.Decode(l.body, &want); err != nil {
		return false
	}
	for _, table := range rawPlugins(want) {
		if table.Table == t.Table {
			table.raw["sha256"] = t.SHA256
		}
	}
	return reflect.DeepEqual(got, want)
}

func (l *locker) edited() string {
	slices.SortFunc(l.edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var b strings.Builder
	at := 0
	for _, e := range l.edits {
		b.WriteString(l.body[at:e.start] + e.text)
		at = e.end
	}
	return b.String() + l.body[at:]
}
