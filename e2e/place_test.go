package e2e

import (
	"os"
	"testing"

	"github.com/trainctl/trainctl/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m.Run)) }

// place adds helpers that only these tests need to a rig.Place.
type place struct{ *rig.Place }

func newPlace(t rig.TB) *place { return &place{rig.NewPlace(t)} }

// placeWith returns a place whose configuration has the given tables.
func placeWith(t rig.TB, tables string) *place {
	p := newPlace(t)
	p.Configure(t, tables)
	return p
}
