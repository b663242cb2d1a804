package dl

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
)

// Entry is one row of a binding's table.
type Entry struct {
	Field  string
	Symbol string
	Since  string // "" for a symbol that has to be there
}

// Table reads the rows from the tags of a binding, a pointer to a struct.
// Embedded structs are part of it; fields without a tag are not.
func Table(binding any) []Entry {
	var out []Entry
	for _, f := range reflect.VisibleFields(reflect.TypeOf(binding).Elem()) {
		tag, ok := f.Tag.Lookup("dl")
		if !ok {
			continue
		}
		symbol, since, _ := strings.Cut(tag, ",")
		out = append(out, Entry{Field: f.Name, Symbol: symbol, Since: since})
	}
	return out
}

// Bind fills the function fields of a binding with the library's functions
// and returns the rows that the library does not have. Statuses other than 0
// become errors through status, which gets the C name of the function. A
// missing symbol that has to be there is an error.
func Bind(l *Library, binding any, status func(symbol string, code int32) error) ([]Entry, error) {
	var missing []Entry
	v := reflect.ValueOf(binding).Elem()
	for _, e := range Table(binding) {
		field := v.FieldByName(e.Field)
		if field.Kind() != reflect.Func {
			panic(fmt.Sprintf("dl: field %s of %s is not a function", e.Field, v.Type()))
		}
		address := l.Symbol(e.Symbol)
		if address != 0 {
			field.Set(function(field.Type(), address, func(code int32) error { return status(e.Symbol, code) }))
			continue
		}
		gone := &MissingError{Library: filepath.Base(l.Path), Symbol: e.Symbol, Since: e.Since}
		if e.Since == "" {
			return nil, gone
		}
		missing = append(missing, e)
		field.Set(absent(field.Type(), gone))
	}
	return missing, nil
}

var (
	errorType = reflect.TypeFor[error]()
	noError   = reflect.Zero(errorType)
)

// function makes a Go function of type t out of a C function.
func function(t reflect.Type, address uintptr, status func(int32) error) reflect.Value {
	if t.NumOut() != 1 || t.Out(0) != errorType {
		fn := reflect.New(t)
		register(fn.Interface(), address)
		return fn.Elem()
	}
	fn := reflect.New(reflect.FuncOf(arguments(t), []reflect.Type{reflect.TypeFor[int32]()}, false))
	register(fn.Interface(), address)
	raw := fn.Elem()
	return reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
		code := int32(raw.Call(args)[0].Int())
		if code == 0 {
			return []reflect.Value{noError}
		}
		return []reflect.Value{result(status(code))}
	})
}

func arguments(t reflect.Type) []reflect.Type {
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	return in
}

// result wraps an error for a reflected function; nil stays nil.
func result(err error) reflect.Value {
	if err == nil {
		return noError
	}
	return reflect.ValueOf(&err).Elem()
}

// absent creates a function that returns a *MissingError, or zero values if it cannot
// return an error.
func absent(t reflect.Type, gone error) reflect.Value {
	return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value {
		out := make([]reflect.Value, t.NumOut())
		for i := range out {
			if t.Out(i) == errorType {
				out[i] = result(gone)
			} else {
				out[i] = reflect.Zero(t.Out(i))
			}
		}
		return out
	})
}
