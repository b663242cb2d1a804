package config

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/BurntSushi/toml"
)

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
