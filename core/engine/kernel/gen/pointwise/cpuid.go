package pointwise

import (
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// cpuid emits the instruction of that name.
func cpuid(a *isa.Asm) {
	a.Kernel("cpuid", "func(leaf uint32) (eax, ebx uint32)", "asks the CPU what it is.")
	a.Load(a.Param("leaf"), reg.EAX)
	a.XORL(reg.ECX, reg.ECX)
	a.CPUID()
	a.Store(reg.EAX, a.Return("eax"))
	a.Store(reg.EBX, a.Return("ebx"))
	a.RET()
}
