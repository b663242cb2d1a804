package e2e

import "github.com/trainctl/trainctl/e2e/rig"

// place adds helpers that only these tests need to a rig.Place.
type place struct{ *rig.Place }

func newPlace(t rig.TB) *place { return &place{rig.NewPlace(t)} }
