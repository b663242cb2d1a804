package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
)

// Team is a convolution that threads compute together, where each would evaluate the same
// filters if they shared its images.
type Team = winograd.Team

// NewTeam returns the team of some threads for a direction, nil where they share images.
func NewTeam[T kernel.Float](p *Shape, d Direction, threads int) *Team {
	if threads < 2 || !kernel.Is32[T]() || choose[T](p, d) != Winograd {
		return nil
	}
	if _, ok := trimmed(p); ok {
		return nil
	}
	return winograd.NewTeam(p, d, threads)
}
