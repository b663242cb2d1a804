package config

import (
	"fmt"
	"slices"
)

// step is one step down a tree: a key, or an index into a list.
type step struct {
	key string
	idx int // -1 for a key
}

// parsePath reads "a.b[2].\"c d\"".
func parsePath(path string) ([]step, error) {
	s := &scanner{src: &source{text: path}, text: path}
	var out []step
	for {
		p := s.keyPart()
		if p.span.start == p.span.end {
			return nil, fmt.Errorf("%q is not a key", path)
		}
		out = append(out, step{p.name, -1})
		for s.accept('[') {
			start := s.i
			for s.i < len(path) && path[s.i] >= '0' && path[s.i] <= '9' {
				s.i++
			}
			var n int
			if _, err := fmt.Sscanf(path[start:s.i], "%d", &n); err != nil || !s.accept(']') {
				return nil, fmt.Errorf("%q is not a key: want a number in brackets", path)
			}
			out = append(out, step{"", n})
		}
		if s.i == len(path) {
			return out, nil
		}
		if !s.accept('.') {
			return nil, fmt.Errorf("%q is not a key", path)
		}
	}
}

// assign stores v at the end of the steps, creates tables on the way, and
// returns the canonical path.
func assign(root map[string]any, steps []step, v any) (string, error) {
	var at any = root
	var store func(any) // stores a changed list where it came from
	path := ""
	for i, st := range steps {
		last := i == len(steps)-1
		if st.idx < 0 {
			m, ok := at.(map[string]any)
			if !ok {
				return "", fmt.Errorf("%s is %s and has no keys", path, describe(at))
			}
			path = join(path, st.key)
			if last {
				m[st.key] = v
				return path, nil
			}
			if _, ok := m[st.key]; !ok {
				m[st.key] = map[string]any{}
			}
			at, store = m[st.key], func(x any) { m[st.key] = x }
			continue
		}
		list, ok := elements(at)
		if !ok {
			return "", fmt.Errorf("%s is %s, not a list", path, describe(at))
		}
		if st.idx >= len(list) {
			return "", fmt.Errorf("%s has %s: there is no [%d]", path, plural(len(list), "entry"), st.idx)
		}
		list = slices.Clone(list)
		store(list)
		path = element(path, st.idx)
		if last {
			list[st.idx] = v
			return path, nil
		}
		at, store = list[st.idx], func(x any) { list[st.idx] = x }
	}
	return path, nil
}
