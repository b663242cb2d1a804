package plan

import (
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/random"
	"github.com/trainctl/trainctl/core/engine/op"
)

// Optional lists the parameters whose gradient a run may leave out, because
// they lie in a branch that it may leave out.
func (p *Plan) Optional() (params []int) {
	for i := range p.steps {
		if p.steps[i].Branch != 0 {
			params = append(params, p.steps[i].Complete...)
		}
	}
	return params
}

// checkBranches refuses synchronised batch norms in branches: ranks leave out
// branches independently, and would wait for each other.
func (l *lowering) checkBranches() error {
	for i := range l.steps {
		if s := &l.steps[i]; s.branch != 0 && op.StepOf(s.op).Exchange != nil {
			var l usererr.List
			l.Addf("ddp.sync_batchnorm", "set it to false, or layerdrop to 0", "a batch norm in a branch that layerdrop leaves out on some ranks cannot be synchronised with the others: layer %s", s.layer)
			return l.Err()
		}
	}
	return nil
}

// draw decides which branches the run leaves out. Their random streams lie
// behind those of the dropout layers.
func (c *Call) draw(branches []graph.Branch) {
	var keep [1]uint8
	for k, b := range branches {
		random.DropoutMask(c.Seed, c.Stream|uint64(0xffff-k), b.Drop, keep[:])
		c.Dropped[k+1] = keep[0] == 0 || c.Dropped[b.Parent]
	}
}
