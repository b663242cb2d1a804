package sdk

import (
	"time"
)

// Options are a plugin's settings after checking: every published option with
// a default is present, numbers are int64 or float64 as declared.
type Options map[string]any

// Has reports whether the option was given or has a default.
func (o Options) Has(name string) bool { _, ok := o[name]; return ok }

// String returns a string option, "" when absent.
func (o Options) String(name string) string { s, _ := o[name].(string); return s }

// Int returns an int option, 0 when absent.
func (o Options) Int(name string) int64 { n, _ := o[name].(int64); return n }

// Float returns a float option, 0 when absent.
func (o Options) Float(name string) float64 { f, _ := o[name].(float64); return f }

// Bool returns a bool option, false when absent.
func (o Options) Bool(name string) bool { b, _ := o[name].(bool); return b }

// Duration returns a duration option, 0 when absent.
func (o Options) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(o.String(name))
	return d
}

// Floats returns a list of floats, nil when absent. The caller must not change it.
func (o Options) Floats(name string) []float64 { f, _ := o[name].([]float64); return f }

// Ints returns a list of integers, nil when absent. The caller must not change it.
func (o Options) Ints(name string) []int64 { n, _ := o[name].([]int64); return n }

// Strings returns a list of strings, nil when absent. The caller must not change it.
func (o Options) Strings(name string) []string { s, _ := o[name].([]string); return s }
