package graph

import "github.com/trainctl/trainctl/core/tensor"

// The ends of a branch that training may leave out. Both hand on what they
// read; where the branch was left out, its end gives zeros, and so does the
// gradient of its start.
const (
	BranchOp     Op = "branch"
	BranchGradOp Op = "branch_grad"
)

// Branch is a part of the graph that a training run leaves out with a
// probability, every pass anew: LayerDrop (Fan, Grave and Joulin, "Reducing
// Transformer Depth on Demand with Structured Dropout", 2020). Evaluation runs
// all of it.
type Branch struct {
	Drop   float64 // probability
	Parent int     // the branch around it, 0 for none
}

// BranchEnd is the attribute of a branch's two ends.
type BranchEnd struct {
	Branch int  // from 1
	Last   bool // the end, not the start
}

// EnterBranch begins a branch that reads x and returns its own x.
func (g *Graph) EnterBranch(layer string, x ValueID, drop float64) ValueID {
	g.branches = append(g.branches, Branch{Drop: drop, Parent: g.branch})
	k := len(g.branches)
	y := g.branchEnd(layer, x, BranchEnd{Branch: k})
	g.branch = k
	return y
}

// LeaveBranch ends the branch entered last with its result y.
func (g *Graph) LeaveBranch(layer string, y ValueID) ValueID {
	k := g.branch
	g.branch = g.branches[k-1].Parent
	return g.branchEnd(layer, y, BranchEnd{Branch: k, Last: true})
}

// Branches are the graph's branches; number k is element k−1.
func (g *Graph) Branches() []Branch { return g.branches }

func (g *Graph) branchEnd(layer string, x ValueID, end BranchEnd) ValueID {
	y := g.activation(layer, tensor.F32, g.Shape(x)...)
	g.Values[y].Spec.DType = g.Values[x].Spec.DType
	g.node(BranchOp, layer, end, []ValueID{x}, []ValueID{y})
	return y
}

func branchGrad(b *backward, n *Node) { b.through(n, BranchGradOp) }
