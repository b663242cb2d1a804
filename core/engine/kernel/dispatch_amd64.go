package kernel

import "golang.org/x/sys/cpu"

func available() []Level {
	x := cpu.X86
	avx2 := x.HasAVX2 && x.HasFMA && x.HasF16C && x.HasOSXSAVE
	avx512 := avx2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	bf16 := avx512 && x.HasAVX512BF16
	switch {
	case bf16 && x.HasAMXTile && x.HasAMXBF16 && mayUseTiles():
		return []Level{AVX512AMX, AVX512BF16, AVX512, AVX2, Generic}
	case bf16 && slowPairs():
		return []Level{AVX512, AVX512BF16, AVX2, Generic}
	case bf16:
		return []Level{AVX512BF16, AVX512, AVX2, Generic}
	case avx512:
		return []Level{AVX512, AVX2, Generic}
	case avx2:
		return []Level{AVX2, Generic}
	}
	return []Level{Generic}
}

// slowPairs reports whether VDPBF16PS takes so long that float32 is as fast or faster: Intel's cores start one in two cycles, and
// two multiply-adds of float32 in each.
func slowPairs() bool {
	_, vendor := cpuidAVX512(0)
	return vendor == intel
}

const amd, intel = 0x68747541, 0x756e6547 // the first letters of AuthenticAMD and GenuineIntel

// halvedLevel is the level whose vectors the CPU computes in two steps, or unresolved: AMD's family 25 (Zen 4) has units of
// 256 bits for AVX-512, and its cores before Zen 2, family 21 and the first of family 23, had units of 128 bits for AVX2.
func halvedLevel() Level {
	const before, zen, zen2, zen4 = 21, 23, 0x30, 25 // zen2 is the model
	if _, vendor := cpuidAVX512(0); vendor != amd {
		return unresolved
	}
	version, _ := cpuidAVX512(1)
	family, model := version>>8&0xf+version>>20&0xff, version>>4&0xf+version>>16&0xf<<4
	switch {
	case family == zen4 && cpu.X86.HasAVX512F:
		return AVX512
	case family == before, family == zen && model < zen2:
		return AVX2
	}
	return unresolved
}
