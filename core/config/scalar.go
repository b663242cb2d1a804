package config

import (
	"fmt"
	"math"
	"reflect"
)

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

// word returns the string meant by a value. Flags and variables need no quotes
// for keys that accept only a string: --set run.name=2026.
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
