package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	tomlType     = reflect.TypeFor[toml.Unmarshaler]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decoder stores a parsed file in the structs. Unlike toml.Decode it does not
// stop at the first mismatch, and keys are case-sensitive.
type decoder struct{ *report }

// fields lists the keys of a struct in the order of its fields.
func fields(t reflect.Type) (names []string, index map[string]int) {
	index = map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ",")
		if name == "" || name == "-" || t.Field(i).Type == argsType {
			continue
		}
		names = append(names, name)
		index[name] = i
	}
	return names, index
}

func (d decoder) table(path string, raw map[string]any, v reflect.Value) {
	_, idx := fields(v.Type())
	for key, val := range raw {
		at := join(path, key)
		if i, ok := idx[key]; ok {
			d.value(at, val, v.Field(i))
		} else if !d.argument(at, key, val, v) {
			d.unknown(path, key, siblings(v))
		}
	}
}

func (d decoder) value(path string, raw any, v reflect.Value) {
	if done := d.custom(path, raw, v); done {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		d.value(path, raw, p.Elem())
		v.Set(p)
	case reflect.Struct:
		if m, ok := raw.(map[string]any); ok {
			d.table(path, m, v)
		} else {
			d.mismatch(path, raw, "a table", fmt.Sprintf("write [%s] and its keys below", path))
		}
	case reflect.Map:
		if m, ok := raw.(map[string]any); ok {
			v.Set(reflect.ValueOf(m))
		} else {
			d.mismatch(path, raw, "a table", fmt.Sprintf("write [%s] and its keys below", path))
		}
	case reflect.Slice, reflect.Array:
		d.list(path, raw, v)
	default:
		d.scalar(path, raw, v)
	}
}

// custom decodes types with their own unmarshaller, and durations.
func (d decoder) custom(path string, raw any, v reflect.Value) bool {
	switch {
	case v.Type() == durationType:
		d.duration(path, raw, v)
	case reflect.PointerTo(v.Type()).Implements(tomlType):
		if err := v.Addr().Interface().(toml.Unmarshaler).UnmarshalTOML(raw); err != nil {
			d.errorf(path, atValue, "", "%v", err)
		}
	case reflect.PointerTo(v.Type()).Implements(textType):
		s, ok := raw.(string)
		if !ok {
			d.mismatch(path, raw, "a string", "")
			return true
		}
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			d.errorf(path, atValue, "", "%v", err)
		}
	default:
		return false
	}
	return true
}

func (d decoder) duration(path string, raw any, v reflect.Value) {
	s, ok := raw.(string)
	if !ok {
		d.mismatch(path, raw, "a duration", fmt.Sprintf(`write it as a string with a unit: "%vs"`, raw))
		return
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		d.errorf(path, atValue, `write a number and a unit: "30s", "5m", "1h30m"`, "%q is not a duration", s)
		return
	}
	v.SetInt(int64(t))
}

func (d decoder) list(path string, raw any, v reflect.Value) {
	items, ok := elements(raw)
	if !ok {
		help := ""
		if v.Type().Elem().Kind() == reflect.Struct {
			help = fmt.Sprintf("write [[%s]] and the keys of an entry below", path)
		}
		d.mismatch(path, raw, listName(v.Type()), help)
		return
	}
	if v.Kind() == reflect.Array && len(items) != v.Len() {
		d.errorf(path, atValue, "", "want %d values, got %d", v.Len(), len(items))
		return
	}
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	}
	for i, item := range items {
		setDefaults(v.Index(i))
		d.value(element(path, i), item, v.Index(i))
	}
}

// setDefaults sets the defaults of an entry of a list, and reports whether it has any.
func setDefaults(v reflect.Value) bool {
	e, ok := v.Addr().Interface().(interface{ SetDefaults() })
	if ok {
		e.SetDefaults()
	}
	return ok
}

// elements converts the two forms in which the parser returns arrays to one.
func elements(raw any) ([]any, bool) {
	switch raw := raw.(type) {
	case []any:
		return raw, true
	case []map[string]any:
		out := make([]any, len(raw))
		for i, m := range raw {
			out[i] = m
		}
		return out, true
	}
	return nil, false
}
