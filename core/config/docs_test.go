package config

import (
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = "../../docs/configuration.md"

// TestDocs: every key of the structs is documented with its default, and
// nothing else is.
func TestDocs(t *testing.T) {
	doc := maps.Clone(manual())
	for table, rows := range doc {
		doc[table] = maps.Clone(rows)
	}
	def := reflect.ValueOf(defaults(""))
	tables, idx := fields(def.Type())
	for _, table := range tables {
		f := def.Field(idx[table])
		if f.Kind() == reflect.Slice {
			f = entryDefaults(f.Type().Elem())
		}
		checkTable(t, table, doc[table], f, true)
		delete(doc, table)
	}
	early := def.FieldByName("Train").FieldByName("EarlyStop")
	checkTable(t, "train.early_stop", doc["train.early_stop"], early, true)
	delete(doc, "train.early_stop")
	for list, field := range map[string]reflect.Value{"model.layers": def.FieldByName("Model").FieldByName("Layers"), "optimizer.groups": def.FieldByName("Optimizer").FieldByName("Groups")} {
		checkTable(t, list, doc[list], reflect.New(field.Type().Elem()).Elem(), false)
		delete(doc, list)
	}
	for _, table := range tables {
		if _, ok := doc[""][table]; !ok {
			t.Errorf("[%s] is not in the list of tables in %s", table, page)
		}
	}
	delete(doc, "")
	for table := range doc {
		t.Errorf("[%s] is documented and does not exist", table)
	}
}

func checkTable(t *testing.T, table string, doc map[string]entry, v reflect.Value, defaults bool) {
	t.Helper()
	_, idx := fields(v.Type())
	for _, name := range siblings(v) {
		row, ok := doc[name]
		if !ok {
			t.Errorf("%s.%s is not in %s", table, name, page)
			continue
		}
		delete(doc, name)
		if _, field := idx[name]; !field {
			continue
		}
		want, plain := formatValue(v.Field(idx[name]))
		if !defaults || !plain || nested(v.Field(idx[name])) || !strings.HasPrefix(row.def, "`") {
			continue
		}
		if got := strings.Trim(row.def, "`"); got != want {
			t.Errorf("%s.%s: the default is %s, documented as %s", table, name, want, got)
		}
	}
	for name := range doc {
		t.Errorf("%s.%s is documented and does not exist", table, name)
	}
}

// The example at the top of the page is a whole configuration.
func TestDocsExample(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```toml\n")
	example, _, _ := strings.Cut(rest, "```")
	if _, err := loadText("train.toml", example); err != nil {
		t.Error(err)
	}
}

// Every suggestion for a name from elsewhere leads to a key that exists.
func TestElsewhereLeadsSomewhere(t *testing.T) {
	for name, to := range elsewhere {
		if to.key == "" && to.note == "" {
			t.Errorf("%s leads nowhere", name)
		}
		if to.key == "" || strings.Contains(to.key, ".options.") {
			continue
		}
		table, key, _ := strings.Cut(to.key, ".")
		_, tables := fields(reflect.TypeFor[File]())
		i, ok := tables[table]
		if !ok {
			t.Errorf("%s: no table %s", name, table)
			continue
		}
		if _, keys := fields(reflect.TypeFor[File]().Field(i).Type); !has(keys, key) {
			t.Errorf("%s: no key %s", name, to.key)
		}
	}
}

func has(m map[string]int, k string) bool { _, ok := m[k]; return ok }

// TestSchema: the schema names every key, forbids others, and its references
// resolve.
func TestSchema(t *testing.T) {
	s := Schema()
	tables := s["properties"].(map[string]any)
	names, _ := fields(reflect.TypeFor[File]())
	if len(tables) != len(names) {
		t.Errorf("%d tables, want %d", len(tables), len(names))
	}
	train := tables["train"].(map[string]any)
	want := map[string]any{"type": "integer", "default": 1, "minimum": 0, "description": manual()["train"]["epochs"].text}
	if diff := cmp.Diff(want, train["properties"].(map[string]any)["epochs"]); diff != "" {
		t.Error(diff)
	}
	walkSchema(t, s, s["definitions"].(map[string]any))
	for _, d := range s["definitions"].(map[string]any) {
		walkSchema(t, d, s["definitions"].(map[string]any))
	}
}

func walkSchema(t *testing.T, node any, defs map[string]any) {
	t.Helper()
	m, ok := node.(map[string]any)
	if !ok {
		return
	}
	if ref, ok := m["$ref"].(string); ok {
		if defs[strings.TrimPrefix(ref, "#/definitions/")] == nil {
			t.Errorf("%s leads nowhere", ref)
		}
		return
	}
	props, isTable := m["properties"].(map[string]any)
	if isTable && m["additionalProperties"] != false {
		t.Errorf("a table allows unknown keys: %v", m)
	}
	for _, p := range props {
		walkSchema(t, p, defs)
	}
	walkSchema(t, m["items"], defs)
}
