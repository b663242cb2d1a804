package kernel

import (
	"encoding/binary"
	"os"
)

// hasBF16 reports FEAT_BF16, which the kernel says in the second word of hardware
// capabilities (Linux, "ARM64 ELF hwcaps").
func hasBF16() bool {
	const hwcap2, bf16 = 26, 1 << 14 // AT_HWCAP2, HWCAP2_BF16
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return false
	}
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.LittleEndian.Uint64(auxv) == hwcap2 {
			return binary.LittleEndian.Uint64(auxv[8:])&bf16 != 0
		}
	}
	return false
}
