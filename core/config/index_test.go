package config

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// leaves lists the path of every value and element of a decoded file.
func leaves(path string, v any, out map[string]any) {
	if path != "" {
		out[path] = v
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			leaves(join(path, k), x, out)
		}
	default:
		if list, ok := elements(v); ok {
			for i, x := range list {
				leaves(element(path, i), x, out)
			}
		}
	}
}

// checkIndex compares the positions of a valid text with what the TOML parser
// makes of it: the same paths, and at each value's place a text that parses to
// that very value.
func checkIndex(t interface{ Fatalf(string, ...any) }, text string) {
	text = withoutMark(text)
	var root map[string]any
	md, err := toml.Decode(text, &root)
	if err != nil {
		return
	}
	src := &source{name: "x", text: text}
	places := index(src)
	want := map[string]any{}
	leaves("", root, want)
	for path, v := range want {
		pl, ok := places[path]
		if !ok {
			t.Fatalf("no place for %s in:\n%s", path, text)
		}
		if pl.val.end == pl.val.start {
			continue // a table that only headers name
		}
		var got map[string]any
		if _, err := toml.Decode("x = "+text[pl.val.start:pl.val.end], &got); err != nil {
			t.Fatalf("%s: %q is not a value: %v", path, text[pl.val.start:pl.val.end], err)
		}
		if diff := cmp.Diff(plain(v), plain(got["x"]), cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("%s: place holds another value:\n%s", path, diff)
		}
	}
	for path := range places {
		if _, ok := want[path]; !ok {
			t.Fatalf("place for %s, which the parser does not know, in:\n%s", path, text)
		}
	}
	for _, key := range md.Keys() {
		if !mentions(places, key) {
			t.Fatalf("the parser knows %v, the index does not", key)
		}
	}
}

// plain gives lists of tables one form: the parser has two, and not always
// the same for the same text.
func plain(v any) any {
	if list, ok := elements(v); ok {
		out := make([]any, len(list))
		for i, x := range list {
			out[i] = plain(x)
		}
		return out
	}
	if m, ok := v.(map[string]any); ok {
		out := make(map[string]any, len(m))
		for k, x := range m {
			out[k] = plain(x)
		}
		return out
	}
	return v
}

// mentions reports whether a key without indices is among indexed paths.
func mentions(places map[string]place, key toml.Key) bool {
	path := ""
	for _, k := range key {
		path = join(path, k)
	}
	for p := range places {
		if stripIndices(p) == path {
			return true
		}
	}
	return false
}

func stripIndices(p string) string {
	steps, err := parsePath(p)
	if err != nil {
		return p
	}
	out := ""
	for _, s := range steps {
		if s.idx < 0 {
			out = join(out, s.key)
		}
	}
	return out
}

func TestIndex(t *testing.T) {
	for name, text := range map[string]string{
		"tables":      "a = 1\n[b]\nc = 2 # x\n[b.d]\ne = '#'\n[[f]]\ng=1\n[[f]]\n[f.h]\ni=2\n[[f.j]]\nk=1\n[[f.j]]\nk=2\n",
		"inline":      "a = { b = 1, c.d = [ 1, { e = 2 }, [3, 4] ], \"f g\" = '''x''' }\n",
		"strings":     "a = \"\\\"]\"\nb = '\\'\nc = \"\"\"x\"y\n\\\"\"\"\"\"\nd = '''it's'''\ne = \"\"\nf = ''\ng=1",
		"arrays":      "a = [ # one\n  1, # two ]\n  2,\n]\nb = [[], [1], [[2]]]\nc = [{a=1},{a=2}]\n",
		"keys":        "\"a.b\".c = 1\n'd e' . f = 2\n\"\\u00e9\\\"\" = 3\n\"\" = 4\n3.14 = 5\n[ x . \"y z\" ]\nw = 1\n[\"[\"]\n\"]\"=1\n",
		"numbers":     "a = -1_000\nb = 0xff\nc = 1e-3\nd = inf\ne = true\nf = 1979-05-27 07:32:00\ng = 07:32:00 # c\n",
		"crlf":        "a = 1\r\n[b]\r\nc = [\r\n1,\r\n]\r\n",
		"new-inline":  "a = {\n  b = 1, # c\n  d = 2,\n}\n",
		"super-table": "[a.b.c]\nd = 1\n[a]\ne = 2\n",
		"empty":       "",
		"comment":     "# only",
	} {
		t.Run(name, func(t *testing.T) {
			var v map[string]any
			if _, err := toml.Decode(text, &v); err != nil {
				t.Fatalf("the test's own text is wrong: %v", err)
			}
			checkIndex(t, text)
		})
	}
}

// TestIndexProperty draws documents in every notation and checks the places.
func TestIndexProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { checkIndex(rt, drawDocument(rt)) })
}

func drawDocument(t *rapid.T) string {
	var b strings.Builder
	for i := range rapid.IntRange(0, 5).Draw(t, "tables") {
		name := fmt.Sprintf("t%d", i)
		kind := rapid.IntRange(0, 2).Draw(t, "kind")
		for range rapid.IntRange(1, 3).Draw(t, "entries") {
			switch kind {
			case 0:
				fmt.Fprintf(&b, " [ %s . %s ] # [x]\n", name, drawKey(t))
			case 1:
				fmt.Fprintf(&b, "[[%s]]\n", name)
			case 2:
				fmt.Fprintf(&b, "[[%s.'in ner']]\n", name)
			}
			for j := range rapid.IntRange(0, 4).Draw(t, "keys") {
				fmt.Fprintf(&b, "%s.k%d = %s # = \"\n", drawKey(t), j, drawValue(t, 3))
			}
		}
	}
	return b.String()
}

func drawKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b-c", "_d", `"e f"`, `'g.h'`, `"i\"j"`, `"k\\"`, `"ü"`, `"[0]"`, "7"}).Draw(t, "key")
}

func drawValue(t *rapid.T, depth int) string {
	if depth > 0 {
		switch rapid.IntRange(0, 4).Draw(t, "shape") {
		case 0:
			n := rapid.IntRange(0, 3).Draw(t, "len")
			parts := make([]string, n)
			for i := range parts {
				parts[i] = drawValue(t, depth-1)
			}
			sep := rapid.SampledFrom([]string{",", " , ", ",\n # ]\n"}).Draw(t, "sep")
			return "[" + strings.Join(parts, sep) + "]"
		case 1:
			n := rapid.IntRange(0, 3).Draw(t, "len")
			parts := make([]string, n)
			for i := range parts {
				parts[i] = fmt.Sprintf("%s.x%d = %s", drawKey(t), i, drawValue(t, depth-1))
			}
			return "{ " + strings.Join(parts, ", ") + " }"
		}
	}
	return rapid.SampledFrom([]string{
		"1", "-2.5", "true", `"s"`, `"]}\",#"`, `'\'`, "'''a'b'''", "\"\"\"a\"\n\\\\\"\"\"", "1979-05-27T07:32:00Z", "0x1F", "\"\"", "''''x'''''",
	}).Draw(t, "scalar")
}

func TestParent(t *testing.T) {
	for path, want := range map[string]string{
		"a": "", "a.b": "a", "a[0]": "a", "a[0].b": "a[0]", `a."x.y"`: "a", `a."x[0]"`: "a", `a."q\".r"`: "a", `a."\\".b`: `a."\\"`, "": "",
	} {
		if got := parent(path); got != want {
			t.Errorf("parent(%s) = %s, want %s", path, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"epochs", "max_steps", "lr", "betas", "momentum"}
	sort.Strings(names)
	for key, want := range map[string]string{
		"epcohs": "epochs", "epoch": "epochs", "max_step": "max_steps", "rl": "lr", "beta": "betas", "moment": "momentum", "zzz": "", "l": "lr", "learning_rate": "",
	} {
		if got := nearest(key, names); got != want {
			t.Errorf("nearest(%s) = %q, want %q", key, got, want)
		}
	}
}
