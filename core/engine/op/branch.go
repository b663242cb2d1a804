package op

import "github.com/trainctl/trainctl/core/engine/graph"

// The ends of a branch that training may skip. Both pass on what they
// read; where the branch was left out, its end gives zeros, and so does the
// gradient of its start.
const Branch, BranchGrad graph.Op = "branch", "branch_grad"

// BranchAttr says which end of which branch.
type BranchAttr struct {
	Branch int  // of the graph, from 1
	Last   bool // the end, not the start
}

func init() {
	define(Definition{
		Name: Branch, Doc: "the start or the end of layers that a pass may skip", Renames: InEvaluation,
		Outputs: func(in []graph.Value, _ any) ([]graph.Value, error) {
			x := in[0].Spec
			return []graph.Value{outputAs(x.DType, x.Shape...)}, nil
		},
		Gradient: inputGradient,
		Steps:    []Step{{Op: Branch, Cost: PerElement(0), InPlace: []int{0}}, {Op: BranchGrad, Cost: PerElement(0), InPlace: []int{0}}},
	})
}

// EnterBranch begins a branch that reads x, and that a training pass leaves out
// with probability drop. It returns the branch's own x.
func EnterBranch(g *graph.Graph, layer string, x graph.ValueID, drop float64) (graph.ValueID, error) {
	k := g.NewBranch(drop)
	y, err := Apply(g, Branch, layer, BranchAttr{Branch: k}, x)
	g.SetBranch(k)
	return y, err
}

// LeaveBranch ends the branch entered last with its result y.
func LeaveBranch(g *graph.Graph, layer string, y graph.ValueID) (graph.ValueID, error) {
	k := g.Branch()
	g.SetBranch(g.Branches()[k-1].Parent)
	return Apply(g, Branch, layer, BranchAttr{Branch: k, Last: true}, y)
}
