package checkpoint

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/base/similar"
	"github.com/trainctl/trainctl/core/tensor"
)

// KeyError lists all tensors of a file that do not fit a model.
type KeyError struct {
	Half       string   // the place where names are half wrapped; nothing else is compared then
	Missing    []string // names of the model that the file lacks
	Unexpected []string // names of the file that the model lacks
	Mismatched []string // same name, another shape or element type, described
}

func (e *KeyError) Error() string {
	return "the checkpoint does not fit the model:\n" + strings.Join(e.lines(), "\n")
}

func (e *KeyError) lines() []string {
	if e.Half != "" {
		return []string{"only some of the names have the module. prefix: " + e.Half}
	}
	var out []string
	if len(e.Missing) > 0 {
		out = append(out, fmt.Sprintf("missing in the file (%d):\n  - %s", len(e.Missing), excerpt(e.suggest(), "\n  - ")))
	}
	if len(e.Unexpected) > 0 {
		out = append(out, fmt.Sprintf("not in the model (%d):\n  + %s", len(e.Unexpected), excerpt(e.Unexpected, "\n  + ")))
	}
	if len(e.Mismatched) > 0 {
		out = append(out, fmt.Sprintf("different (%d):\n  ! %s", len(e.Mismatched), excerpt(e.Mismatched, "\n  ! ")))
	}
	return out
}

// suggest adds to each missing name the nearest unexpected one.
func (e *KeyError) suggest() []string {
	out := make([]string, 0, min(len(e.Missing), shown))
	for i, name := range e.Missing {
		if i < shown {
			if n := nearest(unwrap(name), e.Unexpected); n != "" {
				name += " (the file has " + n + ")"
			}
		}
		out = append(out, name)
	}
	return out
}

const shown = 20

func excerpt(s []string, sep string) string {
	if len(s) <= shown {
		return strings.Join(s, sep)
	}
	return strings.Join(s[:shown], sep) + fmt.Sprintf("\n  … and %d more", len(s)-shown)
}

// nearest is the name within a third of the length in edits, "" if none is.
func nearest(name string, among []string) string {
	plain := make([]string, len(among))
	for i, a := range among {
		plain[i] = unwrap(a)
	}
	if i := similar.Index(name, plain, len(name)/3); i >= 0 {
		return among[i]
	}
	return ""
}

// Fill copies the tensors of a file into those of a model, whose names, shapes
// and element types decide. Names may differ by "module." as in match.
// Everything that does not fit is listed in one *KeyError, and then nothing
// was copied. The notes say what was adapted.
func Fill(model, file []tensor.Named) (notes []string, err error) {
	m, bad := match(namesOf(model), namesOf(file))
	byName := make(map[string]tensor.Tensor, len(file))
	for _, t := range file {
		byName[t.Name] = t.Tensor
	}
	for _, t := range model {
		from, ok := m.From[t.Name]
		if !ok {
			continue
		}
		if h := byName[from]; h.DType != t.DType || !h.Shape.Equal(t.Shape) {
			bad.Mismatched = append(bad.Mismatched, fmt.Sprintf("%s: the file has %v, the model %v", t.Name, h.Spec(), t.Spec()))
		}
	}
	if len(bad.lines()) > 0 {
		return nil, &bad
	}
	for _, t := range model {
		if from, ok := m.From[t.Name]; ok {
			copy(t.Data, byName[from].Data)
		}
	}
	return m.Notes, nil
}

func namesOf(tensors []tensor.Named) []string {
	out := make([]string, len(tensors))
	for i, t := range tensors {
		out[i] = t.Name
	}
	return out
}
