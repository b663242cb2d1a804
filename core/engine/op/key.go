package op

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
)

// Key is an argument of a layer, by PyTorch's name.
type Key struct {
	Name     string
	Kind     Kind
	Doc      string // what it says, and its default
	Required bool
	Default  float64 // of a Float; other kinds have theirs in Build

	// Min is the least value of an integer, and of each integer of a Pair or a list.
	// Range, if its ends differ, is what a float has to lie in; above 0 if Positive, as in a list of floats.
	Min      int
	Range    [2]float64
	Positive bool

	Same bool     // a Pair may be Same
	One  bool     // a number stands for a list of one
	Enum []string // what a string may be; the first is the default
	Noun string   // what the strings name, for errors
}

// Kind is the type of an argument in TOML and in Go.
type Kind uint8

// The kinds of arguments.
const (
	Int    Kind = iota // int
	Float              // float64
	Bool               // bool
	String             // string
	Pairs              // Pair: one number, or [height, width]
	Ints               // []int

	Floats // []float64
)

// Zero is a value of the kind's Go type.
func (k Kind) Zero() any {
	return [...]any{Int: 0, Float: 0.0, Bool: false, String: "", Pairs: Pair(nil), Ints: []int(nil), Floats: []float64(nil)}[k]
}

// String is what a value of the kind is.
func (k Kind) String() string {
	return [...]string{Int: "an integer", Float: "a number", Bool: "true or false", String: "a string", Pairs: "one number or [height, width]", Ints: "a list of integers", Floats: "a list of numbers"}[k]
}

// KeyNamed is the key of that name of some operation. Keys of one name have one kind.
func KeyNamed(name string) (Key, bool) {
	lock.RLock()
	defer lock.RUnlock()
	k, ok := keys[name]
	return k, ok
}

// KeyNames lists the keys of all operations, sorted.
func KeyNames() []string {
	lock.RLock()
	defer lock.RUnlock()
	return slices.Sorted(maps.Keys(keys))
}

// Args are the arguments of a layer that were given, by key, each of its kind's Go type.
type Args map[string]any

func (a Args) has(key string) bool { _, ok := a[key]; return ok }

// get is an argument, or d if it was not given.
func get[T any](a Args, key string, d T) T {
	if v, ok := a[key]; ok {
		return v.(T)
	}
	return d
}

func (a Args) int(key string, d int) int     { return get(a, key, d) }
func (a Args) float(k Key) float64           { return get(a, k.Name, k.Default) }
func (a Args) bool(key string, d bool) bool  { return get(a, key, d) }
func (a Args) pair(key string, d int) [2]int { return [2]int(get(a, key, Pair{d, d})) }
func (a Args) text(k Key) string             { return get(a, k.Name, k.Enum[0]) }

// Problems finds what is wrong with a layer's arguments: missing and superfluous
// ones, and values out of range, by key.
func (d *Definition) Problems(a Args) (l usererr.List) {
	known := map[string]Key{}
	for _, k := range d.Keys {
		known[k.Name] = k
		if k.Required && !a.has(k.Name) {
			l.Addf(k.Name, "", "%s needs %s", d.Name, k.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		k, mine := known[name]
		if !mine {
			l.Addf(name, d.takes(), "%s takes no %s", d.Name, name)
			if k, mine = KeyNamed(name); !mine {
				continue
			}
		}
		if v := a[name]; v != nil && reflect.TypeOf(v) != reflect.TypeOf(k.Kind.Zero()) {
			l.Addf(name, "", "want %s, got %v", k.Kind, v)
			continue
		}
		k.check(&l, a[name])
	}
	if d.Check != nil {
		d.Check(a, &l)
	}
	return l
}

func (d *Definition) takes() string {
	if len(d.Keys) == 0 {
		return "it has no arguments"
	}
	var needs, others []string
	for _, k := range d.Keys {
		if k.Required {
			needs = append(needs, k.Name)
		} else {
			others = append(others, k.Name)
		}
	}
	return "it takes " + strings.Join(append(needs, others...), ", ")
}

// check finds what is wrong with a value.
func (k Key) check(l *usererr.List, v any) {
	switch v := v.(type) {
	case int:
		k.atLeast(l, k.Name, v)
	case []int:
		each(k, v, func(key string, n int) { k.atLeast(l, key, n) })
	case Pair:
		if !k.Same || !slices.Equal(v, Same) {
			k.checkPair(l, v)
		}
	case float64:
		k.checkFloat(l, k.Name, v)
	case []float64:
		each(k, v, func(key string, x float64) { k.checkFloat(l, key, x) })
	case string:
		if k.Enum != nil && !slices.Contains(k.Enum, v) {
			l.Addf(k.Name, strings.Join(k.Enum, " or "), "unknown %s %q", k.Noun, v)
		}
	}
}

// each checks the elements of a list.
func each[T any](k Key, list []T, check func(key string, v T)) {
	for i, v := range list {
		check(fmt.Sprintf("%s[%d]", k.Name, i), v)
	}
}

func (k Key) atLeast(l *usererr.List, key string, n int) {
	if n < k.Min {
		l.Addf(key, "", "%d is less than %d", n, k.Min)
	}
}

func (k Key) checkPair(l *usererr.List, p Pair) {
	if slices.Equal(p, Same) {
		l.Addf(k.Name, "one number, or [height, width]", "%q is for convolutions' padding", "same")
		return
	}
	if len(p) != 2 {
		l.Addf(k.Name, "one number, or [height, width]", "%d numbers given", len(p))
		return
	}
	for _, n := range p {
		k.atLeast(l, k.Name, n)
	}
}

func (k Key) checkFloat(l *usererr.List, key string, v float64) {
	switch lo, hi := k.Range[0], k.Range[1]; {
	case k.Positive && !(v > 0):
		l.Addf(key, "", "%v is not positive", v)
	case lo != hi && !(v >= lo && v <= hi):
		l.Addf(key, "", "%v is outside %v to %v", v, lo, hi)
	}
}

// Pair is an argument that PyTorch takes as one number or as (height, width).
type Pair []int

// Same is the padding "same".
var Same = Pair{-1 << 31, -1 << 31}

// UnmarshalTOML reads 3, [3, 5] or "same".
func (p *Pair) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		if v == "same" {
			*p = Same
			return nil
		}
	case int64:
		*p = Pair{int(v), int(v)}
		return nil
	case []any:
		if len(v) == 2 {
			h, ok1 := v[0].(int64)
			w, ok2 := v[1].(int64)
			if ok1 && ok2 {
				*p = Pair{int(h), int(w)}
				return nil
			}
		}
	}
	return fmt.Errorf("must be a number or [height, width], got %v", v)
}
