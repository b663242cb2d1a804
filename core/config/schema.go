package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/sdk"
)

// Schema describes the file as a JSON Schema (draft 4, which TOML editors support).
// Keys, types and defaults come from the structs; descriptions from the manual; the
// words that a key accepts from the struct tags words (separated by commas) and
// pattern; limits of numbers from the checks; layers from their operations; options
// of built-in plugins from what they publish. Options of other plugins are not
// restricted.
func Schema(plugins ...sdk.Info) map[string]any {
	s := &schema{defs: map[string]any{}}
	root := s.object("", reflect.TypeFor[File](), reflect.ValueOf(defaults("")))
	tables := root["properties"].(map[string]any)
	for _, kind := range []sdk.Kind{sdk.KindBackend, sdk.KindPrecision, sdk.KindDataset} {
		pluginTable(tables[string(kind)].(map[string]any), ofKind(plugins, kind))
	}
	pluginTable(tables["observers"].(map[string]any)["items"].(map[string]any), ofKind(plugins, sdk.KindObserver))
	root["$schema"] = "http://json-schema.org/draft-04/schema#"
	root["title"] = "trainctl configuration"
	root["definitions"] = s.defs
	return root
}

func ofKind(plugins []sdk.Info, kind sdk.Kind) []sdk.Info {
	return slices.DeleteFunc(slices.Clone(plugins), func(p sdk.Info) bool { return p.Kind != kind })
}

type schema struct{ defs map[string]any }

// object describes a struct; table is its name in the manual.
func (s *schema) object(table string, t reflect.Type, def reflect.Value) map[string]any {
	props := map[string]any{}
	names, idx := fields(t)
	for _, name := range names {
		var d reflect.Value
		if def.IsValid() {
			d = def.Field(idx[name])
		}
		f := t.Field(idx[name])
		p := s.of(join(table, name), f.Type, d)
		restrict(p, f.Tag)
		bound(p, def, name, idx[name])
		if text := manual()[table][name].text; text != "" {
			p["description"] = text
		}
		props[name] = p
	}
	out := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	switch t {
	case reflect.TypeFor[nn.LayerConfig]():
		s.layer(out, props)
	case reflect.TypeFor[optim.Config]():
		props["name"].(map[string]any)["enum"] = optim.Names()
	case reflect.TypeFor[nn.Config]():
		props["name"].(map[string]any)["enum"] = append([]string{""}, nn.Names()...)
		for _, model := range nn.Names() {
			s.keys(props, model, nn.Keys(model))
		}
		props["loss"].(map[string]any)["enum"] = append([]string{""}, op.Losses()...)
	}
	return out
}

// restrict adds the limits given by a field's tags.
func restrict(p map[string]any, tag reflect.StructTag) {
	if words, ok := tag.Lookup("words"); ok {
		p["enum"] = strings.Split(words, ",")
	}
	if pattern, ok := tag.Lookup("pattern"); ok {
		p["pattern"] = pattern
	}
}

// of describes a type; def is its default, invalid when there is none.
func (s *schema) of(path string, t reflect.Type, def reflect.Value) map[string]any {
	if t.Kind() == reflect.Struct && !custom(t) {
		if def.IsValid() {
			return s.object(path, t, def)
		}
		return s.reference(path, t)
	}
	out := s.plain(path, t)
	if def.IsValid() && !def.IsZero() {
		if v, ok := schemaDefault(def); ok {
			out["default"] = v
		}
	}
	return out
}

// reference names a struct in the definitions: layers nest in layers.
func (s *schema) reference(path string, t reflect.Type) map[string]any {
	if _, ok := s.defs[t.Name()]; !ok {
		s.defs[t.Name()] = nil // stops the recursion
		s.defs[t.Name()] = s.object(path, t, reflect.Value{})
	}
	return map[string]any{"$ref": "#/definitions/" + t.Name()}
}

const durationPattern = `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`

func (s *schema) plain(path string, t reflect.Type) map[string]any {
	if t == durationType {
		return map[string]any{"type": "string", "pattern": durationPattern}
	}
	if custom(t) {
		return selfRead(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(path, t.Elem(), reflect.Value{})
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(path, t.Elem(), entryDefaults(t.Elem()))}
	case reflect.Array:
		return map[string]any{"type": "array", "items": s.of(path, t.Elem(), reflect.Value{}), "minItems": t.Len(), "maxItems": t.Len()}
	}
	return map[string]any{"type": "object"}
}

// entryDefaults has the defaults of an entry of a list; invalid if it has none.
func entryDefaults(t reflect.Type) reflect.Value {
	if v := reflect.New(t).Elem(); setDefaults(v) {
		return v
	}
	return reflect.Value{}
}

// selfRead describes a type with its own TOML unmarshaller, as far as it publishes what it accepts.
func selfRead(t reflect.Type) map[string]any {
	if forms, ok := reflect.Zero(t).Interface().(interface{ SchemaForms() []map[string]any }); ok {
		return map[string]any{"anyOf": forms.SchemaForms()}
	}
	return map[string]any{}
}

// custom reports whether a type has its own TOML unmarshaller.
func custom(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[toml.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func schemaDefault(v reflect.Value) (any, bool) {
	if v.Type() == durationType {
		return formatDuration(time.Duration(v.Int())), true
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return nil, false
	}
	return v.Interface(), true
}

// pluginTable completes the table of one kind of plugin: the key plugin accepts the name or
// the path of any plugin and offers the built-in ones, of which each has its own options.
func pluginTable(table map[string]any, plugins []sdk.Info) {
	if len(plugins) == 0 {
		return
	}
	key := table["properties"].(map[string]any)["plugin"].(map[string]any)
	def, _ := key["default"].(string)
	names, cases := []string{}, []any{}
	for _, p := range plugins {
		names = append(names, p.Name)
		cases = append(cases, pluginCase(p, def))
	}
	if def == "auto" { // means one of the others, and accepts its options
		names = append([]string{def}, names...)
	}
	other := map[string]any{"type": "string", "minLength": 1, "not": map[string]any{"enum": names}, "description": "the name or the path of another plugin"}
	key["anyOf"] = []any{map[string]any{"enum": names}, other}
	key["examples"] = names
	cases = append(cases, map[string]any{"properties": map[string]any{"plugin": other}, "required": []string{"plugin"}})
	table["anyOf"] = cases
}

// pluginCase describes the table when a given plugin is chosen; def is chosen if
// the key plugin is not set.
func pluginCase(p sdk.Info, def string) map[string]any {
	options, required := map[string]any{}, []string{}
	for i := range p.Options {
		o := &p.Options[i]
		options[o.Name] = option(o)
		if o.Required {
			required = append(required, o.Name)
		}
	}
	table := map[string]any{"type": "object", "properties": options, "additionalProperties": false}
	out := map[string]any{"title": p.Name}
	names, needs := []string{p.Name}, []string{"plugin"}
	if def == "auto" {
		names = append(names, def)
	}
	if slices.Contains(names, def) {
		needs = nil
	}
	if len(required) > 0 {
		table["required"] = required
		needs = append(needs, "options")
	}
	if needs != nil {
		out["required"] = needs
	}
	out["properties"] = map[string]any{"plugin": map[string]any{"enum": names, "description": p.Summary}, "options": table}
	return out
}

// option describes a key that a plugin publishes.
func option(o *sdk.Option) map[string]any {
	out := optionType(o)
	if len(o.Enum) > 0 {
		out["enum"] = o.Enum
	}
	if o.Default != nil {
		out["default"] = o.Default
	}
	out["description"] = o.Doc
	if o.Unit != "" {
		out["description"] = o.Doc + " In " + o.Unit + "."
	}
	return out
}

func optionType(o *sdk.Option) map[string]any {
	name, list := strings.CutSuffix(string(o.Type), " list")
	one := map[string]any{"type": name}
	switch sdk.OptionType(name) {
	case sdk.Int, sdk.Float:
		one["type"] = map[string]string{"int": "integer", "float": "number"}[name]
		if o.Min != nil {
			one["minimum"] = *o.Min
		}
		if o.Max != nil {
			one["maximum"] = *o.Max
		}
	case sdk.Boolean:
		one["type"] = "boolean"
	case sdk.Duration:
		one = map[string]any{"type": "string", "pattern": durationPattern}
	}
	if list {
		return map[string]any{"type": "array", "items": one}
	}
	return one
}
