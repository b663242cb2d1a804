package sdk

import (
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

// check converts one value to the option's declared type, or returns what is wrong
// with it.
func (o *Option) check(v any) (any, error) {
	switch o.Type {
	case String:
		return one(o, v, toString)
	case Duration:
		return one(o, v, toDuration)
	case Boolean:
		return one(o, v, toBool)
	case Int:
		return one(o, v, toInt)
	case Float:
		return one(o, v, toFloat)
	case StringList:
		return list(o, v, toString)
	case IntList:
		return list(o, v, toInt)
	case FloatList:
		return list(o, v, toFloat)
	}
	return nil, fmt.Errorf("the plugin declares the unknown type %q", o.Type)
}

func one[T any](o *Option, v any, convert func(*Option, any) (T, error)) (any, error) {
	t, err := convert(o, v)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func list[T any](o *Option, v any, convert func(*Option, any) (T, error)) (any, error) {
	if typed, ok := v.([]T); ok {
		v = anys(typed)
	}
	values, ok := v.([]any)
	if !ok {
		return nil, wrongType(o, v)
	}
	out := make([]T, len(values))
	for i, e := range values {
		t, err := convert(o, e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = t
	}
	return out, nil
}

func anys[T any](s []T) []any {
	out := make([]any, len(s))
	for i, v := range s {
		out[i] = v
	}
	return out
}

func toString(o *Option, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", wrongType(o, v)
	}
	if len(o.Enum) > 0 && !slices.Contains(o.Enum, s) {
		return "", fmt.Errorf("%q is not one of %s", s, quoted(o.Enum))
	}
	return s, nil
}

func toDuration(o *Option, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", wrongType(o, v)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a duration", s)
	}
	return s, o.within(d.Seconds(), s)
}

func toBool(o *Option, v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, wrongType(o, v)
	}
	return b, nil
}

func toInt(o *Option, v any) (int64, error) {
	n, ok := v.(int64)
	if i, isInt := v.(int); isInt {
		n, ok = int64(i), true
	}
	if !ok {
		return 0, wrongType(o, v)
	}
	return n, o.within(float64(n), strconv.FormatInt(n, 10))
}

func toFloat(o *Option, v any) (float64, error) {
	f, ok := v.(float64)
	switch n := v.(type) {
	case int64:
		f, ok = float64(n), true
	case int:
		f, ok = float64(n), true
	}
	if !ok {
		return 0, wrongType(o, v)
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
	return fmt.Errorf("wants %s, got %s", article(o.Type), describe(v))
}

func article(t OptionType) string {
	switch t {
	case String:
		return "a string"
	case Int:
		return "an integer"
	case Float:
		return "a number"
	case Boolean:
		return "true or false"
	case Duration:
		return "a duration"
	case FloatList:
		return "a list of numbers"
	case IntList:
		return "a list of integers"
	case StringList:
		return "a list of strings"
	}
	return string(t)
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
