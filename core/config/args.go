package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Besides the fields of its struct, a layer's table has keys for the arguments
// that operations define, and the model's table those that named models define. They
// are in the field of type op.Args.

// withArgs is a table with arguments.
type withArgs interface {
	ArgKeys() []string
	ArgKey(name string) (op.Key, bool)
}

var argsType = reflect.TypeFor[op.Args]()

// argsOf returns the field of a struct that holds arguments.
func argsOf(v reflect.Value) (args reflect.Value, ok bool) {
	for i := range v.NumField() {
		if v.Field(i).Type() == argsType {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// argument decodes a key that an operation or a model defines; false if none does.
func (d decoder) argument(path, key string, raw any, v reflect.Value) bool {
	args, ok := argsOf(v)
	if !ok {
		return false
	}
	k, known := v.Interface().(withArgs).ArgKey(key)
	if !known {
		return false
	}
	p := reflect.New(reflect.TypeOf(k.Kind.Zero())).Elem()
	if n, ok := raw.(int64); ok && k.One {
		raw = []any{n}
	}
	d.value(path, raw, p)
	if p.Kind() == reflect.Slice && p.IsNil() { // was not one
		return true
	}
	if args.IsNil() {
		args.Set(reflect.ValueOf(op.Args{}))
	}
	args.SetMapIndex(reflect.ValueOf(key), p)
	return true
}

// siblings returns the keys of a struct and those of its arguments.
func siblings(v reflect.Value) []string {
	names, _ := fields(v.Type())
	if _, ok := argsOf(v); ok {
		names = slices.Concat(names, v.Interface().(withArgs).ArgKeys())
	}
	return names
}

// arguments writes a table's arguments, in the order in which its type documents them.
func (w *writer) arguments(path string, v reflect.Value) {
	args, ok := argsOf(v)
	if !ok {
		return
	}
	given := args.Interface().(op.Args)
	for _, name := range v.Interface().(withArgs).ArgKeys() {
		if x, ok := given[name]; ok {
			if s, ok := formatValue(reflect.ValueOf(x)); ok {
				w.setting(join(path, name), name, s)
			}
		}
	}
}

// layer adds to the schema of a layer the keys that its types accept.
func (s *schema) layer(table, props map[string]any) {
	types, docs := nn.Types()
	lines := make([]string, len(types))
	for i, name := range types {
		lines[i] = name + ": " + docs[name]
	}
	props["type"] = map[string]any{"type": "string", "enum": types, "description": strings.Join(lines, "\n")}
	table["required"] = []string{"type"}
	for _, d := range op.Layers() {
		s.keys(props, string(d.Name), d.Keys)
	}
}

// keys adds to the schema of a table the keys that one of its types accepts.
func (s *schema) keys(props map[string]any, owner string, keys []op.Key) {
	for _, k := range keys {
		p, ok := props[k.Name].(map[string]any)
		text := owner + ": " + k.Doc
		if before, ok := p["description"]; ok {
			text = before.(string) + "\n" + text
		}
		if !ok || k.Same {
			p = s.argument(k)
			props[k.Name] = p
		}
		p["description"] = text
	}
}

// argument describes a key that an operation defines.
func (s *schema) argument(k op.Key) map[string]any {
	out := s.of(k.Name, reflect.TypeOf(k.Kind.Zero()), reflect.Value{})
	switch k.Kind {
	case op.Pairs:
		one := map[string]any{"type": "integer", "minimum": k.Min}
		forms := []any{one, map[string]any{"type": "array", "items": one, "minItems": 2, "maxItems": 2}}
		if k.Same {
			forms = append(forms, map[string]any{"type": "string", "enum": []string{"same"}})
		}
		out["oneOf"] = forms
	case op.Ints:
		one := map[string]any{"type": "integer", "minimum": k.Min}
		if out["items"] = one; k.One {
			return map[string]any{"oneOf": []any{one, out}}
		}
	case op.Int:
		out["minimum"] = k.Min
	case op.String:
		if k.Enum != nil {
			out["enum"] = k.Enum
		}
	case op.Floats:
		out["items"] = floats(k, map[string]any{"type": "number"})
	case op.Float:
		floats(k, out)
	}
	return out
}

// floats adds to the schema of a number what is accepted.
func floats(k op.Key, out map[string]any) map[string]any {
	if k.Range[0] != k.Range[1] {
		out["minimum"], out["maximum"] = k.Range[0], k.Range[1]
	}
	if k.Positive {
		out["minimum"], out["exclusiveMinimum"] = 0, true
	}
	return out
}
