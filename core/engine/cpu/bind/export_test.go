package bind

import "github.com/trainctl/trainctl/core/engine/plan"

// What tests of steps need, which run operations of package ops.
const CacheLine = cacheLine

var (
	BlocksOf     = blocksOf
	EachOperand  = eachOperand
	ScratchElems = scratchElems
	CopyBytes    = copyBytes
	Whole        = bindAs[float32]
)

// Several reports whether the step is cut.
func (k *blocks) Several() bool { return k.n > k.size }

func (k *blocks) Workspace() int { return k.workspace() }

func (k *blocks) Bind(m *Memory) (func(*plan.Call), error) { return k.bind(m) }
