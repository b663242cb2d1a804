package graph

// Branch is a part of the graph that a training run leaves out with a
// probability, every pass anew: LayerDrop (Fan, Grave and Joulin, "Reducing
// Transformer Depth on Demand with Structured Dropout", 2020). Evaluation runs
// all of it.
type Branch struct {
	Drop   float64 // probability
	Parent int     // the branch around it, 0 for none
}

// NewBranch declares a branch within the one that nodes are added to now, and
// returns its number.
func (g *Graph) NewBranch(drop float64) int {
	g.branches = append(g.branches, Branch{Drop: drop, Parent: g.branch})
	return len(g.branches)
}

// SetBranch says which branch nodes are added to from now on, 0 for none.
func (g *Graph) SetBranch(k int) { g.branch = k }

// Branch is the branch that nodes are added to, 0 for none.
func (g *Graph) Branch() int { return g.branch }

// Branches are the graph's branches; number k is element k−1.
func (g *Graph) Branches() []Branch { return g.branches }
