package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/fx/fxevent"

	"github.com/trainctl/trainctl/core/base/similar"
)

// wiring listens to fx while a worker is built. fx ignores fx.Replace and fx.Decorate of a type that
// nothing provides, so that a test would run with the part that it meant to replace.
type wiring struct {
	provided map[string]bool
	changed  []string // types of fx.Replace and fx.Decorate, in order
}

func newWiring() *wiring { return &wiring{provided: map[string]bool{}} }

// LogEvent implements fxevent.Logger.
func (w *wiring) LogEvent(e fxevent.Event) {
	switch e := e.(type) {
	case *fxevent.Provided:
		for _, name := range e.OutputTypeNames {
			w.provided[name] = true
		}
	case *fxevent.Supplied:
		w.provided[e.TypeName] = true
	case *fxevent.Replaced:
		w.changed = append(w.changed, e.OutputTypeNames...)
	case *fxevent.Decorated:
		w.changed = append(w.changed, e.OutputTypeNames...)
	}
}

// check runs before anything is built.
func (w *wiring) check() error {
	for _, name := range w.changed {
		if w.provided[name] {
			continue
		}
		parts := slices.Sorted(maps.Keys(w.provided))
		msg := fmt.Sprintf("fx.Replace or fx.Decorate of %s: no part of a worker has this type, so it would not be used", name)
		if near := similar.Nearest(name, parts, len(name)/3); near != "" {
			return fmt.Errorf("%s; did you mean %s?", msg, near)
		}
		return fmt.Errorf("%s; fix: use one of %s", msg, strings.Join(parts, ", "))
	}
	return nil
}
