package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/optim"
)

// refuses loads a configuration with one key of one table set to a word, and says
// whether the key is complained about.
func refuses(table, key, word string) bool {
	c := map[string]string{"dataset.plugin": `"mnist"`, "train.per_rank_batch": "64", "model.name": `"resnet18"`}
	c[join(table, key)] = fmt.Sprintf("%q", word)
	var text strings.Builder
	for k, v := range c {
		fmt.Fprintf(&text, "%s = %s\n", k, v)
	}
	_, err := loadText("train.toml", text.String())
	var bad *Error
	return errors.As(err, &bad) && slices.ContainsFunc(bad.Diagnostics, func(d Diagnostic) bool { return d.Key == join(table, key) })
}

// TestSchemaKnowsTheWords: where a string may not be anything, the schema says
// what it may be, and that is what the checks accept.
func TestSchemaKnowsTheWords(t *testing.T) {
	tables := Schema()["properties"].(map[string]any)
	file := reflect.TypeFor[File]()
	names, idx := fields(file)
	for _, table := range names {
		if file.Field(idx[table]).Type.Kind() != reflect.Struct {
			continue // a list of tables, whose keys are those of others
		}
		props := tables[table].(map[string]any)["properties"].(map[string]any)
		keys, at := fields(file.Field(idx[table]).Type)
		for _, key := range keys {
			if file.Field(idx[table]).Type.Field(at[key]).Type.Kind() != reflect.String || key == "plugin" {
				continue
			}
			p := props[key].(map[string]any)
			words, _ := p["enum"].([]string)
			pattern, _ := p["pattern"].(string)
			if refuses(table, key, "tea") != (words != nil || pattern != "") {
				t.Errorf("%s.%s = \"tea\": refused is %v, and the schema has the words %q and the pattern %q", table, key, refuses(table, key, "tea"), words, pattern)
			}
			for _, w := range words {
				withLayers := table == "model" && key == "name" && w == "" // which this file has not
				if refuses(table, key, w) && !withLayers {
					t.Errorf("%s.%s: the schema offers %q, which is refused", table, key, w)
				}
			}
		}
	}
}

// TestSchemaPatterns compares the patterns with what the checks say.
func TestSchemaPatterns(t *testing.T) {
	tables := Schema()["properties"].(map[string]any)
	for key, values := range map[string][]string{
		"checkpoint.every":   {"1 epoch", "2 epochs", "500 steps", "never", "0 steps", "epoch", "1 day", ""},
		"launch.port_range":  {"", "29400", "29400-29500", "29400 - 29500", "a-b", "1-2-3"},
		"metrics.prometheus": {"", "127.0.0.1:9100", ":9100", "[::1]:9100", "9100", "host:port"},
	} {
		table, name, _ := strings.Cut(key, ".")
		p := tables[table].(map[string]any)["properties"].(map[string]any)[name].(map[string]any)
		re := regexp.MustCompile(p["pattern"].(string))
		for _, v := range values {
			if re.MatchString(v) == refuses(table, name, v) {
				t.Errorf("%s = %q: the schema matches %v, refused is %v", key, v, re.MatchString(v), refuses(table, name, v))
			}
		}
	}
}

// The schema offers the optimizers that are registered.
func TestSchemaListsEveryOptimizer(t *testing.T) {
	table := Schema()["properties"].(map[string]any)["optimizer"].(map[string]any)
	key := table["properties"].(map[string]any)["name"].(map[string]any)
	if names, _ := key["enum"].([]string); !slices.Equal(names, optim.Names()) {
		t.Errorf("optimizer.name takes %v in the schema, not %v", key["enum"], optim.Names())
	}
}
