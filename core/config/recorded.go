package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/trainctl/trainctl/core/sdk"
)

// Recorded is a setting of the resolved configuration that a run has written to its directory.
type Recorded struct {
	Key     string
	Value   string // as TOML
	Default string // of this version, as TOML; "": none
}

// Changed reports whether the value differs from the default.
func (r Recorded) Changed() bool { return r.Value != r.Default }

// ReadRecorded lists the settings of a resolved configuration, as this or another version wrote
// it: tables in the order of [Config.Resolved], and what this version does not have last. It
// checks nothing. plugins are those whose options have known defaults.
func ReadRecorded(text string, plugins ...sdk.Info) ([]Recorded, error) {
	root := map[string]any{}
	if _, err := toml.Decode(text, &root); err != nil {
		return nil, fmt.Errorf("config.toml of the run: %w", err)
	}
	values := map[string]string{}
	flatten(values, "", root)
	w := writer{}
	w.table("", reflect.ValueOf(defaults(optimizerName(root))))
	known, order := map[string]string{}, map[string]int{}
	for _, l := range w.lines {
		if l.path != "" {
			known[l.path] = l.value
			order[l.path] = len(order) + 1
		}
	}
	known["sampler.seed"] = values["run.seed"]
	known["optimizer.name"] = quote(defaults("").Optimizer.Name)
	optionDefaults(known, root, plugins)
	var out []Recorded
	for key, value := range values {
		out = append(out, Recorded{key, value, known[key]})
	}
	tables, _ := fields(reflect.TypeFor[File]())
	slices.SortFunc(out, func(a, b Recorded) int {
		return cmp.Or(cmp.Compare(tableOf(tables, a.Key), tableOf(tables, b.Key)), cmp.Compare(numbered(order, a.Key), numbered(order, b.Key)), cmp.Compare(a.Key, b.Key))
	})
	return out, nil
}

// tableOf is the number of the table of a key; tables that this version does not have come last.
func tableOf(tables []string, key string) int {
	table, _, _ := strings.Cut(key, ".")
	if n := slices.Index(tables, table); n >= 0 {
		return n
	}
	return len(tables)
}

// numbered sorts keys without a number after the others.
func numbered(order map[string]int, key string) int {
	if n := order[key]; n > 0 {
		return n
	}
	return len(order) + 1
}

// flatten adds the settings of a table by their paths.
func flatten(to map[string]string, path string, table map[string]any) {
	for key, v := range table {
		at := join(path, key)
		switch v := v.(type) {
		case map[string]any:
			flatten(to, at, v)
		case []map[string]any:
			for i, t := range v {
				flatten(to, element(at, i), t)
			}
		default:
			if s, ok := formatValue(reflect.ValueOf(v)); ok {
				to[at] = s
			}
		}
	}
}

// optionDefaults adds the defaults of the options of the plugins that a configuration names.
func optionDefaults(to map[string]string, root map[string]any, plugins []sdk.Info) {
	for _, p := range plugins {
		table, _ := root[string(p.Kind)].(map[string]any)
		if table["plugin"] != p.Name {
			continue
		}
		given := map[string]any{}
		for _, o := range p.Options {
			if o.Default != nil {
				given[o.Name] = o.Default
			}
		}
		options := map[string]string{}
		flatten(options, join(string(p.Kind), "options"), given)
		maps.Copy(to, options)
	}
}
