//go:build linux

package main

import "github.com/trainctl/trainctl/e2e/rig"

// place adds helpers that only fault cases need to a rig.Place.
type place struct{ *rig.Place }

func newPlace(t rig.TB) *place { return &place{rig.NewPlace(t)} }
