package checkpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Mapping maps names of a model to names of a file.
type Mapping struct {
	From    map[string]string // name in the model → name in the file
	Missing []string          // counters of batch norm that old files lack; they keep their value
	Notes   []string          // "stripped 'module.' from 8 of 8 keys"; none when the names were equal
}

const wrapper = "module"

// match finds the mapping between names that differ only by "module." components, wherever these
// are: DistributedDataParallel and DataParallel insert one before the keys of the part of a model
// that they wrap. A file in which a part is only half wrapped is refused, as are missing and
// unexpected names, in one KeyError. Counters named num_batches_tracked may be missing: files older
// than PyTorch 0.4.1 have none.
func match(want, have []string) (Mapping, KeyError) {
	m := Mapping{From: make(map[string]string, len(want))}
	var bad KeyError
	if bad.Half = halfWrapped(want, have); bad.Half != "" {
		return m, bad
	}
	plain := make(map[string]string, len(have))
	for _, h := range have {
		u := unwrap(h)
		if other, taken := plain[u]; taken {
			bad.Half = fmt.Sprintf("%q and %q differ only by 'module.'", other, h)
			return m, bad
		}
		plain[u] = h
	}
	for _, w := range want {
		u := unwrap(w)
		h, ok := plain[u]
		delete(plain, u)
		switch {
		case ok:
			m.From[w] = h
		case strings.HasSuffix(w, "num_batches_tracked"):
			m.Missing = append(m.Missing, w)
		default:
			bad.Missing = append(bad.Missing, w)
		}
	}
	for _, h := range have {
		if plain[unwrap(h)] == h {
			bad.Unexpected = append(bad.Unexpected, h)
		}
	}
	m.Notes = notes(m)
	return m, bad
}

// Unwrapped is a tensor's name without the "module" components of wrapped models.
func Unwrapped(name string) string { return unwrap(name) }

// unwrap removes every component "module" before the last one.
func unwrap(key string) string {
	parts := strings.Split(key, ".")
	path, leaf := parts[:len(parts)-1], parts[len(parts)-1]
	path = slices.DeleteFunc(path, func(p string) bool { return p == wrapper })
	return strings.Join(append(path, leaf), ".")
}

// halfWrapped finds a place in the tree of names where some go through
// "module" and others do not, unless the model itself is like that. It
// describes the place, or gives "".
func halfWrapped(want, have []string) string {
	own := map[string]bool{}
	for _, f := range forks(want) {
		own[f.place()] = own[f.place()] || f.both()
	}
	for _, f := range sortedForks(forks(have)) {
		if f.both() && !own[f.place()] {
			return f.String()
		}
	}
	return ""
}

// fork is one place in the tree of names.
type fork struct {
	at             string // path before it, "" at the top
	wrapped, plain []string
}

// place is the fork's position in the tree, without wrappers.
func (f *fork) place() string { return strings.Trim(strings.TrimSuffix(unwrap(f.at+".x"), "x"), ".") }

func (f *fork) both() bool { return len(f.wrapped) > 0 && len(f.plain) > 0 }

func (f *fork) String() string {
	place := "at the top"
	if f.at != "" {
		place = "under " + f.at
	}
	return fmt.Sprintf("%s, %d keys have 'module.' and %d do not:\n  + %s\n  - %s", place,
		len(f.wrapped), len(f.plain), excerpt(f.wrapped, "\n  + "), excerpt(f.plain, "\n  - "))
}

func forks(keys []string) map[string]*fork {
	all := map[string]*fork{}
	for _, k := range keys {
		at := 0
		for {
			part, _, more := strings.Cut(k[at:], ".")
			f := all[k[:at]]
			if f == nil {
				f = &fork{at: strings.TrimSuffix(k[:at], ".")}
				all[k[:at]] = f
			}
			if part == wrapper && more {
				f.wrapped = append(f.wrapped, k)
			} else {
				f.plain = append(f.plain, k)
			}
			if !more {
				break
			}
			at += len(part) + 1
		}
	}
	return all
}

func sortedForks(m map[string]*fork) []*fork {
	out := make([]*fork, 0, len(m))
	for _, f := range m {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *fork) int { return strings.Compare(a.at, b.at) })
	return out
}

// notes counts adapted names: matched names differ only in "module" components, so the
// longer one is wrapped.
func notes(m Mapping) []string {
	var stripped, added int
	for w, h := range m.From {
		switch d := strings.Count(h, ".") - strings.Count(w, "."); {
		case d > 0:
			stripped++
		case d < 0:
			added++
		}
	}
	var out []string
	if stripped > 0 {
		out = append(out, fmt.Sprintf("stripped 'module.' from %d of %d keys", stripped, len(m.From)))
	}
	if added > 0 {
		out = append(out, fmt.Sprintf("added 'module.' to %d of %d keys", added, len(m.From)))
	}
	if len(m.Missing) > 0 {
		out = append(out, fmt.Sprintf("%d counters num_batches_tracked are not in the file and keep their value", len(m.Missing)))
	}
	return out
}
