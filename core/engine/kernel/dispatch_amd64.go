package kernel

import "golang.org/x/sys/cpu"

func available() []Level {
	x := cpu.X86
	avx2 := x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasOSXSAVE
	avx512 := avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	switch {
	case avx512 && x.HasAVX512BF16:
		return []Level{AVX512BF16, AVX512, AVX2, Generic}
	case avx512:
		return []Level{AVX512, AVX2, Generic}
	case avx2:
		return []Level{AVX2, Generic}
	}
	return []Level{Generic}
}

// halvesVectors reports whether the CPU computes vectors of 512 bits in two steps of 256, as AMD's family 25 (Zen 4)
// does: its peak is then that of AVX2.
func halvesVectors() bool {
	const auth, zen4 = 0x68747541, 25 // "Auth", of AuthenticAMD
	if !cpu.X86.HasAVX512F {
		return false
	}
	if _, vendor := cpuidAVX512(0); vendor != auth {
		return false
	}
	version, _ := cpuidAVX512(1)
	return version>>8&0xf+version>>20&0xff == zen4
}
