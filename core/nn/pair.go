package nn

import "fmt"

// IntPair is an argument that PyTorch takes as one number or as (height,
// width). Empty means not given.
type IntPair []int

// UnmarshalTOML reads 3 or [3, 5].
func (p *IntPair) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case int64:
		*p = IntPair{int(v), int(v)}
		return nil
	case []any:
		if len(v) == 2 {
			h, ok1 := v[0].(int64)
			w, ok2 := v[1].(int64)
			if ok1 && ok2 {
				*p = IntPair{int(h), int(w)}
				return nil
			}
		}
	}
	return fmt.Errorf("want a number or [height, width], got %v", v)
}

// Or returns the pair, or (d, d) when it was not given.
func (p IntPair) Or(d int) (h, w int) {
	if len(p) == 0 {
		return d, d
	}
	return p[0], p[1]
}
