package jsonvalue

import "encoding/json"

// Object converts the values of a JSON object in place; see [Native].
func Object(m map[string]any) {
	for key, v := range m {
		m[key] = Native(v)
	}
}

// Native converts numbers that were decoded with [json.Decoder.UseNumber], also
// inside lists: integers to int64, all others to float64.
func Native(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // ±Inf beyond its range
		return f
	case []any:
		for i := range v {
			v[i] = Native(v[i])
		}
	}
	return v
}
