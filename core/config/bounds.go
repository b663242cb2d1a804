package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// checked is a table that checks its own values.
type checked interface{ Problems() usererr.List }

// bound adds to the schema of a field the smallest and largest number that its table
// accepts. It runs the table's own checks, so that the schema and config check agree.
// def has the defaults, which are always accepted.
func bound(p map[string]any, def reflect.Value, name string, field int) {
	if !def.IsValid() || !def.Type().Implements(reflect.TypeFor[checked]()) {
		return
	}
	into, number := p, def.Type().Field(field).Type
	if number.Kind() == reflect.Array {
		into, number = p["items"].(map[string]any), number.Elem()
	}
	if number == durationType || custom(number) || !def.Field(field).CanInt() && !def.Field(field).CanFloat() && number.Kind() != reflect.Float64 {
		return
	}
	accepts := func(v float64) bool { return !refusesNumber(def, name, field, v) }
	real := number.Kind() == reflect.Float64
	switch {
	case accepts(-1):
	case accepts(0), def.Field(field).IsZero():
		into["minimum"] = 0
	case real && accepts(tiny):
		into["minimum"], into["exclusiveMinimum"] = 0, true
	case !real && accepts(1):
		into["minimum"] = 1
	}
	switch {
	case !real || accepts(2):
	case accepts(1):
		into["maximum"] = 1
	case accepts(0.5):
		into["maximum"], into["exclusiveMaximum"] = 1, true
	}
}

// tiny is above 0 and below any lower limit that a table could have.
const tiny = 1e-30

// refusesNumber reports whether a table rejects a value for one of its numbers,
// both with defaults and with 1 for the others.
func refusesNumber(def reflect.Value, name string, field int, v float64) bool {
	for _, others := range []bool{false, true} {
		table := reflect.New(def.Type()).Elem()
		table.Set(def)
		for i := range table.NumField() {
			if others && def.Type().Field(i).Type != durationType && !custom(def.Type().Field(i).Type) {
				setNumber(table.Field(i), 1)
			}
		}
		setNumber(table.Field(field), v)
		if !names(table.Interface().(checked).Problems(), name) {
			return false
		}
	}
	return true
}

// names reports whether a problem concerns a key or its elements.
func names(l usererr.List, key string) bool {
	return slices.ContainsFunc(l, func(p usererr.Problem) bool { return p.Key == key || strings.HasPrefix(p.Key, key+"[") })
}

// setNumber sets a field that is a number, or all elements of a list or array.
func setNumber(f reflect.Value, v float64) {
	switch {
	case f.CanFloat():
		f.SetFloat(v)
	case f.CanInt():
		f.SetInt(int64(v))
	case f.CanUint() && v >= 0:
		f.SetUint(uint64(v))
	case f.Kind() == reflect.Array:
		for i := range f.Len() {
			setNumber(f.Index(i), v)
		}
	}
}
