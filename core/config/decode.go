package config

import (
	"encoding"
	"fmt"
	"math"
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

// decoder puts a parsed file into the structs. Unlike toml.Decode it does not
// stop at the first mismatch, and it compares keys letter by letter.
type decoder struct{ *report }

// fields lists the keys of a struct in the order of its fields.
func fields(t reflect.Type) (names []string, index map[string]int) {
	index = map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ",")
		if name == "" || name == "-" {
			continue
		}
		names = append(names, name)
		index[name] = i
	}
	return names, index
}

func (d decoder) table(path string, raw map[string]any, v reflect.Value) {
	names, idx := fields(v.Type())
	for key, val := range raw {
		at := join(path, key)
		if i, ok := idx[key]; ok {
			d.value(at, val, v.Field(i))
		} else {
			d.unknown(path, key, names)
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

// custom handles the types that read themselves, and durations.
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
		d.mismatch(path, raw, listName(v.Type()), "")
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
		d.value(element(path, i), item, v.Index(i))
	}
}

// elements gives the two forms in which the parser returns arrays as one.
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

func (d decoder) scalar(path string, raw any, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s, ok := d.word(path, raw); ok {
			v.SetString(s)
		} else {
			d.mismatch(path, raw, "a string", fmt.Sprintf("put it in quotes: %q", fmt.Sprint(raw)))
		}
	case reflect.Bool:
		if b, ok := raw.(bool); ok {
			v.SetBool(b)
		} else {
			d.mismatch(path, raw, "true or false", boolHelp(raw))
		}
	case reflect.Float32, reflect.Float64:
		d.float(path, raw, v)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64, reflect.Uint32:
		d.integer(path, raw, v)
	default:
		panic(fmt.Sprintf("config: field %s has a type that TOML cannot fill: %v", path, v.Type()))
	}
}

// word is the string meant by a value. Flags and variables need no quotes
// where only a string can be meant: --set run.name=2026.
func (d decoder) word(path string, raw any) (string, bool) {
	s, ok := raw.(string)
	if pl := d.places[path]; !ok && pl.src != nil && pl.src.rank > 0 {
		switch raw.(type) {
		case int64, float64, bool:
			return pl.src.text[pl.val.start:pl.val.end], true
		}
	}
	return s, ok
}

func (d decoder) float(path string, raw any, v reflect.Value) {
	switch x := raw.(type) {
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			d.errorf(path, atValue, "", "want a finite number, got %v", x)
			return
		}
		v.SetFloat(x)
	case int64:
		v.SetFloat(float64(x))
	default:
		d.mismatch(path, raw, "a number", numberHelp(raw))
	}
}

func (d decoder) integer(path string, raw any, v reflect.Value) {
	n, ok := raw.(int64)
	if !ok {
		d.mismatch(path, raw, "an integer", numberHelp(raw))
		return
	}
	if v.CanUint() {
		if n < 0 || v.OverflowUint(uint64(n)) {
			d.errorf(path, atValue, "", "%d is out of range: the smallest value is 0", n)
			return
		}
		v.SetUint(uint64(n))
		return
	}
	if v.OverflowInt(n) {
		d.errorf(path, atValue, "", "%d is out of range", n)
		return
	}
	v.SetInt(n)
}

func (d decoder) mismatch(path string, raw any, want, help string) {
	d.errorf(path, atValue, help, "want %s, got %s", want, describe(raw))
}

// describe names a value as a user wrote it.
func describe(raw any) string {
	switch x := raw.(type) {
	case string:
		return fmt.Sprintf("the string %q", x)
	case int64:
		return fmt.Sprintf("the integer %d", x)
	case float64:
		return "the float " + formatFloat(x)
	case bool:
		return fmt.Sprint(x)
	case map[string]any:
		return "a table"
	case []map[string]any, []any:
		return "a list"
	case time.Time:
		return "a date"
	}
	return fmt.Sprintf("%v", raw)
}

func numberHelp(raw any) string {
	switch x := raw.(type) {
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return fmt.Sprintf("write %d", int64(x))
		}
	case string:
		var v map[string]any
		if _, err := toml.Decode("x = "+x, &v); err == nil {
			switch v["x"].(type) {
			case int64, float64:
				return "write it without quotes: " + x
			}
		}
	}
	return ""
}

func boolHelp(raw any) string {
	switch raw {
	case "true", "True", "yes", "on", int64(1):
		return "write true"
	case "false", "False", "no", "off", int64(0):
		return "write false"
	}
	return ""
}

func listName(t reflect.Type) string {
	switch k := t.Elem().Kind(); {
	case k == reflect.Struct:
		return "a list of tables"
	case t.Kind() == reflect.Array:
		return fmt.Sprintf("a list of %d numbers", t.Len())
	default:
		return "a list"
	}
}
