package custom

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Key is a setting of a definition in the configuration.
type Key struct {
	Name string
	Doc  string

	// Default is the value where none is given: a float64, int, bool, string or []int, which is also the type of the key.
	// Required keys have none, but the type.
	Default  any
	Required bool

	// What values are accepted. Min is the least int, and the least element of an []int. Range, if its ends differ, is where
	// a float64 has to be, above 0 if Positive. Enum lists the strings.
	Min      int
	Range    [2]float64
	Positive bool
	Enum     []string
}

// key is the key as the engine knows it.
func (k Key) key() (op.Key, error) {
	out := op.Key{Name: k.Name, Doc: k.Doc, Required: k.Required, Min: k.Min, Range: k.Range, Positive: k.Positive, Enum: k.Enum, Noun: k.Name}
	switch k.Default.(type) {
	case float64:
		out.Kind = op.Float
	case int:
		out.Kind = op.Int
	case bool:
		out.Kind = op.Bool
	case string:
		out.Kind = op.String
	case []int:
		out.Kind = op.Ints
	default:
		return out, fmt.Errorf("the key %q has a Default of type %T; fix: give a float64, int, bool, string or []int", k.Name, k.Default)
	}
	if !names.Get().MatchString(k.Name) {
		return out, fmt.Errorf("a key is named %q; fix: use lower-case letters, digits and _, beginning with a letter", k.Name)
	}
	if k.Required {
		out.Doc += "; required"
		return out, nil
	}
	out.Doc += fmt.Sprintf("; default %v", k.Default)
	if problems := (&op.Definition{Keys: []op.Key{out}}).Problems(op.Args{k.Name: k.Default}); len(problems) > 0 {
		return out, fmt.Errorf("the key %s does not accept its own Default: %v; fix: change the Default, or what the key accepts", k.Name, problems[0])
	}
	return out, nil
}

func engineKeys(keys []Key) (out []op.Key, err error) {
	for i, k := range keys {
		one, e := k.key()
		if e == nil && slices.ContainsFunc(keys[:i], func(other Key) bool { return other.Name == k.Name }) {
			e = fmt.Errorf("the key %s is listed twice", k.Name)
		}
		out, err = append(out, one), errors.Join(err, e)
	}
	return out, err
}

// Args are the values of a definition's keys: those that the configuration gives, else defaults. Its methods panic for
// keys that the definition does not have, or not with that type.
type Args struct {
	given op.Args
	keys  []Key
}

// Float returns the value of a float64 key.
func (a Args) Float(key string) float64 { return value[float64](a, key) }

// Int returns the value of an int key.
func (a Args) Int(key string) int { return value[int](a, key) }

// Bool returns the value of a bool key.
func (a Args) Bool(key string) bool { return value[bool](a, key) }

// String returns the value of a string key.
func (a Args) String(key string) string { return value[string](a, key) }

// Ints returns the value of an []int key. It must not be changed.
func (a Args) Ints(key string) []int { return value[[]int](a, key) }

func value[T any](a Args, key string) T {
	for i := range a.keys {
		if k := &a.keys[i]; k.Name == key {
			if v, ok := a.given[key]; ok {
				return v.(T)
			}
			return k.Default.(T)
		}
	}
	panic(fmt.Sprintf("custom: the definition has no key %q", key))
}

// checker adapts a check of all keys; its errors are at a key of the table.
func checker(keys []Key, at string, check func(Args) error) func(op.Args, *usererr.List) {
	if check == nil {
		return nil
	}
	return func(given op.Args, l *usererr.List) {
		if len(*l) > 0 { // values may not be of their types
			return
		}
		if err := check(Args{given, keys}); err != nil {
			l.Addf(at, "", "%v", err)
		}
	}
}
