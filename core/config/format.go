package config

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/engine/op"
)

// FormatValue writes a value that was read from TOML as --set takes it.
func FormatValue(v any) string {
	s, _ := formatValue(reflect.ValueOf(v))
	return s
}

// formatValue returns the TOML of a value; false for nil pointers and empty
// lists, which are written by leaving out the key.
func formatValue(v reflect.Value) (string, bool) {
	if !v.IsValid() {
		return "", false
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return quote(formatDuration(x)), true
	case op.Pair:
		if slices.Equal(x, op.Same) {
			return quote("same"), true
		}
	case encoding.TextMarshaler:
		return formatText(x)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return formatValue(v.Elem())
	case reflect.String:
		return quote(v.String()), true
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case reflect.Float64, reflect.Float32:
		return formatFloat(v.Float()), true
	case reflect.Slice, reflect.Array:
		return formatList(v)
	case reflect.Map:
		return formatMap(v)
	}
	return fmt.Sprint(v.Interface()), true
}

// formatText writes a type with a text form. One with its own TOML unmarshaller
// accepts numbers and lists without quotes.
func formatText(m encoding.TextMarshaler) (string, bool) {
	b, err := m.MarshalText()
	if err != nil {
		return "", false
	}
	if _, err := strconv.ParseFloat(string(b), 64); (err == nil || bytes.HasPrefix(b, []byte("["))) && custom(reflect.TypeOf(m)) {
		return string(b), true
	}
	return quote(string(b)), true
}

func formatList(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return "", false
	}
	var parts []string
	for i := range v.Len() {
		if s, ok := formatValue(v.Index(i)); ok {
			parts = append(parts, s)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

func formatMap(v reflect.Value) (string, bool) {
	m, ok := v.Interface().(map[string]any)
	if !ok {
		return "", false
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s, ok := formatValue(reflect.ValueOf(m[k])); ok {
			parts = append(parts, join("", k)+" = "+s)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", true
}

// formatFloat writes a number that TOML reads as a float again.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimSuffix(fmt.Sprintf("%+f", f), "inity"))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// formatDuration drops the zero parts that time.Duration prints: "5m0s".
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// quote writes a basic TOML string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
