package config

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/trainctl/trainctl/core/job/rank"
)

// Override is one setting from outside the file.
type Override struct {
	Key   string // dotted path: "launch.nproc_per_node"
	Value string // as TOML, or a bare word for a string
	Flag  string // the flag that set it: "--nproc-per-node"
}

// tree is the raw file with overrides written into it.
type tree struct {
	*report
	root map[string]any
}

// environment applies to [launch] what Kubernetes sets about hosts, and then the
// PET_<FLAG> variables, from which torchrun reads each of its flags too.
func (t *tree) environment(lookup func(string) (string, bool)) {
	if lookup == nil {
		return
	}
	t.pod(lookup)
	names, _ := fields(reflect.TypeFor[File]().Field(1).Type)
	for _, name := range names {
		env := "PET_" + strings.ToUpper(name)
		if v, ok := lookup(env); ok && v != "" {
			src := &source{name: env, text: env + "=" + v, rank: 1, env: env}
			t.set("launch."+name, v, src, span{0, len(env)}, len(env)+1)
		}
	}
}

// pod applies this host's node rank and the number of hosts as set by Kubernetes.
func (t *tree) pod(lookup func(string) (string, bool)) {
	n, ok, err := rank.NodeFromEnv(lookup)
	if !ok {
		return
	}
	value, _ := lookup(n.Source)
	src := &source{name: n.Source, text: n.Source + "=" + value, rank: 1, env: n.Source}
	if err != nil {
		t.addAt(src, span{0, len(n.Source)}, "", "%v", err)
		return
	}
	put := func(key, value string) { t.set("launch."+key, value, src, span{0, len(n.Source)}, len(n.Source)+1) }
	if n.Endpoint != "" {
		put("rdzv_endpoint", strconv.Quote(n.Endpoint))
	}
	if n.Nodes > 0 {
		put("nnodes", strconv.Itoa(n.Nodes))
		put("node_rank", strconv.Itoa(n.Rank))
	}
}

// flags applies the settings that have their own flag.
func (t *tree) flags(list []Override) {
	for _, o := range list {
		src := &source{name: o.Flag, text: o.Flag + "=" + o.Value, rank: 2, flag: o.Flag}
		t.set(o.Key, o.Value, src, span{0, len(o.Flag)}, len(o.Flag)+1)
	}
}

// sets applies --set arguments of the form key=value.
func (t *tree) sets(args []string) {
	for i, arg := range args {
		src := &source{name: "--set", text: arg, rank: 3 + i, flag: "--set"}
		key, value, ok := cutAssign(arg)
		if !ok || strings.TrimSpace(key) == "" {
			t.addAt(src, span{0, len(arg)}, "write --set key=value, such as --set train.epochs=3", "want key=value, got %q", arg)
			continue
		}
		t.set(strings.TrimSpace(key), value, src, span{0, len(key)}, len(key)+1)
	}
}

// cutAssign cuts at the first "=" outside quotes.
func cutAssign(arg string) (key, value string, ok bool) {
	var quote rune
	for i, r := range arg {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '=':
			return arg[:i], arg[i+1:], true
		}
	}
	return "", "", false
}

// set stores one value in the tree and records where it came from. valueAt is
// the offset of the value in the source's text.
func (t *tree) set(key, value string, src *source, keySpan span, valueAt int) {
	steps, err := parsePath(key)
	if err != nil {
		t.addAt(src, keySpan, "write a dotted path such as model.layers[0].bias", "%v", err)
		return
	}
	v, inner, err := parseValue(value)
	if value == "" && err != nil {
		t.add(SeverityError, key, src, keySpan, fmt.Sprintf(`write a value after the equals sign; an empty string is %s='""'`, key), "the value is missing")
		return
	}
	if err != nil {
		t.addAt(src, span{valueAt, len(src.text)}, valueHelp(value), "%v", err)
		return
	}
	path, err := assign(t.root, steps, v)
	if err != nil {
		t.addAt(src, keySpan, "", "%v", err)
		return
	}
	maps.DeleteFunc(t.places, func(p string, _ place) bool { return within(p, path) })
	for rel, pl := range inner {
		shift := valueAt - pl.src.rank // rank carries the length of the text before the value
		t.places[path+rel] = place{src, span{pl.key.start + shift, pl.key.end + shift}, span{pl.val.start + shift, pl.val.end + shift}}
	}
	for p := parent(path); p != "" && !t.given(p); p = parent(p) {
		t.places[p] = place{src: src, key: keySpan}
	}
	t.places[path] = place{src: src, key: keySpan, val: span{valueAt, len(src.text)}}
}

func (r *report) addAt(src *source, sp span, help, format string, args ...any) {
	r.add(SeverityError, "", src, sp, help, fmt.Sprintf(format, args...))
}

// within reports whether p is path or inside it.
func within(p, path string) bool {
	rest, ok := strings.CutPrefix(p, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func valueHelp(s string) string {
	switch {
	case strings.ContainsAny(s[:1], "[{"):
		return `close the bracket, and put strings inside in quotes: '["a", "b"]'`
	}
	return `quote strings that contain special characters: key='"a#b"'`
}

const probe = "x = "

// ParseValue parses a value in the syntax of --set: as in the file, or a bare word for
// a string. Integers are int64, lists []any, tables map[string]any.
func ParseValue(s string) (any, error) {
	v, _, err := parseValue(s)
	return v, err
}

// parseValue parses TOML, or a bare word as a string. The positions of what is
// inside the value are relative to it.
func parseValue(s string) (any, map[string]place, error) {
	text := probe + s
	var m map[string]any
	_, err := toml.Decode(text, &m)
	if err == nil && len(m) == 1 && !strings.ContainsAny(s, "\n\r") {
		inner := map[string]place{}
		for p, pl := range index(&source{text: text, rank: len(probe)}) {
			if rel := strings.TrimPrefix(p, "x"); rel != "" {
				inner[rel] = pl
			}
		}
		return m["x"], inner, nil
	}
	if word(s) || bracketed(s) {
		return s, nil, nil
	}
	return nil, nil, fmt.Errorf("%q is neither a TOML value nor a plain word", s)
}

// bracketed reports whether s is an IPv6 address with its port, "[fd77::1]:29400".
func bracketed(s string) bool {
	_, err := netip.ParseAddrPort(s)
	return err == nil
}

// word reports whether s, which is not a TOML value, can be read as a string: it
// contains no character that is special in TOML. If the key needs a number, the
// type check reports it.
func word(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsAny(s, "\"'`[]{},#=\n\r\t\x00")
}
