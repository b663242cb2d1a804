package config

import (
	"encoding"
	"reflect"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/trainctl/trainctl/core/nn"
)

// Schema describes the file as a JSON Schema (draft 4, which the TOML editors
// know), generated from the structs. Types of their own, which read several
// forms, and plugin options are left open; trainctl checks them.
func Schema() map[string]any {
	s := &schema{defs: map[string]any{}}
	root := s.object(reflect.TypeFor[File](), reflect.ValueOf(Default("")))
	root["$schema"] = "http://json-schema.org/draft-04/schema#"
	root["title"] = "trainctl configuration"
	root["definitions"] = s.defs
	return root
}

type schema struct{ defs map[string]any }

func (s *schema) object(t reflect.Type, def reflect.Value) map[string]any {
	props := map[string]any{}
	names, idx := fields(t)
	for _, name := range names {
		var d reflect.Value
		if def.IsValid() {
			d = def.Field(idx[name])
		}
		props[name] = s.of(t.Field(idx[name]).Type, d)
	}
	out := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if t == reflect.TypeFor[nn.LayerConfig]() {
		s.layer(out, props)
	}
	return out
}

// of describes a type; def is its default, invalid when there is none.
func (s *schema) of(t reflect.Type, def reflect.Value) map[string]any {
	if t.Kind() == reflect.Struct && !custom(t) {
		if def.IsValid() {
			return s.object(t, def)
		}
		return s.reference(t)
	}
	out := s.plain(t)
	if def.IsValid() && !def.IsZero() {
		if v, ok := schemaDefault(def); ok {
			out["default"] = v
		}
	}
	return out
}

// reference names a struct in the definitions: layers nest in layers.
func (s *schema) reference(t reflect.Type) map[string]any {
	if _, ok := s.defs[t.Name()]; !ok {
		s.defs[t.Name()] = nil // stops the recursion
		s.defs[t.Name()] = s.object(t, reflect.Value{})
	}
	return map[string]any{"$ref": "#/definitions/" + t.Name()}
}

func (s *schema) plain(t reflect.Type) map[string]any {
	if t == durationType {
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`}
	}
	if custom(t) {
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem(), reflect.Value{})
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
		return map[string]any{"type": "array", "items": s.of(t.Elem(), reflect.Value{})}
	case reflect.Array:
		return map[string]any{"type": "array", "items": s.of(t.Elem(), reflect.Value{}), "minItems": t.Len(), "maxItems": t.Len()}
	}
	return map[string]any{"type": "object"}
}

// custom reports whether a type reads itself from TOML.
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
