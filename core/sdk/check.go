package sdk

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/similar"
	"github.com/trainctl/trainctl/core/base/usererr"
)

// CheckOptions checks a plugin's TOML table against the options that it publishes
// and fills in defaults. The table's name ("backend.options") prefixes the keys of
// the problems. Values have the types of a TOML decoder; integers are accepted for
// floats.
func CheckOptions(table string, opts []Option, given map[string]any) (Options, usererr.List) {
	var found usererr.List
	out := make(Options, len(opts))
	for key := range given {
		if option(opts, key) == nil {
			unknownOption(&found, opts, key)
		}
	}
	slices.SortFunc(found, func(a, b usererr.Problem) int { return strings.Compare(a.Key, b.Key) })
	for i := range opts {
		o := &opts[i]
		v, ok := given[o.Name]
		if !ok {
			if o.Required {
				found.Addf(o.Name, o.Doc, "is required")
			} else if o.Default != nil {
				out[o.Name] = o.Default
			}
			continue
		}
		checked, err := o.check(v)
		if err != nil {
			found.Addf(o.Name, o.help(), "%v", err)
			continue
		}
		out[o.Name] = checked
	}
	if table == "" {
		return out, found
	}
	var all usererr.List
	all.Under(table, found)
	return out, all
}

func option(opts []Option, name string) *Option {
	for i := range opts {
		if opts[i].Name == name {
			return &opts[i]
		}
	}
	return nil
}

func unknownOption(found *usererr.List, opts []Option, key string) {
	names := make([]string, len(opts))
	for i := range opts {
		names[i] = opts[i].Name
		if strings.EqualFold(names[i], key) {
			found.Addf(key, "write "+names[i], "unknown key: names are case-sensitive")
			return
		}
	}
	help := "this plugin has no options"
	if best := similar.Nearest(strings.ToLower(key), names, max(2, len(key)/3)); best != "" {
		help = "did you mean " + best + "?"
	} else if len(names) > 0 {
		help = "known keys: " + strings.Join(names, ", ")
	}
	found.Addf(key, help, "unknown key")
}

// converters convert a TOML value to an option's type, by the type's name.
var converters = map[OptionType]func(*Option, any) (any, error){
	String: one(toString), Duration: one(toDuration), Boolean: one(to[bool]), Int: one(toInt), Float: one(toFloat),
	StringList: list(toString), IntList: list(toInt), FloatList: list(toFloat),
}

// check converts one value to the option's declared type, or returns what is wrong
// with it.
func (o *Option) check(v any) (any, error) {
	convert, known := converters[o.Type]
	if !known {
		return nil, fmt.Errorf("the plugin declares the unknown type %q", o.Type)
	}
	return convert(o, v)
}

func one[T any](convert func(*Option, any) (T, error)) func(*Option, any) (any, error) {
	return func(o *Option, v any) (any, error) {
		t, err := convert(o, v)
		if err != nil {
			return nil, err
		}
		return t, nil
	}
}

func list[T any](convert func(*Option, any) (T, error)) func(*Option, any) (any, error) {
	return func(o *Option, v any) (any, error) {
		if typed, ok := v.([]T); ok {
			v = anys(typed)
		}
		values, err := to[[]any](o, v)
		if err != nil {
			return nil, err
		}
		out := make([]T, len(values))
		for i, e := range values {
			if out[i], err = convert(o, e); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return out, nil
	}
}

func anys[T any](s []T) []any {
	out := make([]any, len(s))
	for i, v := range s {
		out[i] = v
	}
	return out
}

// to accepts values of exactly one Go type.
func to[T any](o *Option, v any) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, wrongType(o, v)
	}
	return t, nil
}

func toString(o *Option, v any) (string, error) {
	s, err := to[string](o, v)
	if err == nil && len(o.Enum) > 0 && !slices.Contains(o.Enum, s) {
		err = fmt.Errorf("%q is not one of %s", s, quoted(o.Enum))
	}
	return s, err
}

func toDuration(o *Option, v any) (string, error) {
	s, err := to[string](o, v)
	if err != nil {
		return "", err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a duration", s)
	}
	return s, o.within(d.Seconds(), s)
}

func toInt(o *Option, v any) (int64, error) {
	if i, ok := v.(int); ok {
		v = int64(i)
	}
	n, err := to[int64](o, v)
	if err != nil {
		return 0, err
	}
	return n, o.within(float64(n), strconv.FormatInt(n, 10))
}

func toFloat(o *Option, v any) (float64, error) {
	switch n := v.(type) {
	case int64:
		v = float64(n)
	case int:
		v = float64(n)
	}
	f, err := to[float64](o, v)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%v is not a finite number", f)
	}
	return f, o.within(f, strconv.FormatFloat(f, 'g', -1, 64))
}

// within checks the limits; those of a duration are in seconds.
func (o *Option) within(x float64, shown string) error {
	switch {
	case o.Min != nil && x < *o.Min:
		return fmt.Errorf("%s is below the minimum of %v%s", shown, *o.Min, o.unit())
	case o.Max != nil && x > *o.Max:
		return fmt.Errorf("%s is above the maximum of %v%s", shown, *o.Max, o.unit())
	}
	return nil
}

func (o *Option) unit() string {
	switch {
	case o.Type == Duration:
		return "s"
	case o.Unit != "":
		return " " + o.Unit
	}
	return ""
}

func (o *Option) help() string {
	s := ""
	switch {
	case o.Type == Duration:
		s = `write it as "30s" or "5m"`
	case len(o.Enum) > 0:
		s = "one of " + quoted(o.Enum)
	}
	if o.Doc == "" {
		return s
	}
	if s != "" {
		s += "; "
	}
	return s + o.Doc
}

func wrongType(o *Option, v any) error {
	return fmt.Errorf("want %s, got %s", cmp.Or(inWords[o.Type], string(o.Type)), describe(v))
}

// inWords is what messages call a value of an option's type.
var inWords = map[OptionType]string{
	String: "a string", Int: "an integer", Float: "a number", Boolean: "true or false", Duration: "a duration",
	StringList: "a list of strings", IntList: "a list of integers", FloatList: "a list of numbers",
}

// describe names a TOML value by its TOML type.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case bool, int64, int:
		return fmt.Sprint(v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	case []any:
		return "a list"
	case fmt.Stringer: // time.Time and TOML's local dates and times
		return "the date or time " + v.String()
	}
	return fmt.Sprintf("%v", v)
}

func quoted(s []string) string {
	q := make([]string, len(s))
	for i := range s {
		q[i] = strconv.Quote(s[i])
	}
	return strings.Join(q, ", ")
}
