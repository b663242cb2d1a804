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

// halvedLevel is the level whose vectors the CPU computes in two steps, or unresolved: AMD's family 25 (Zen 4) has units of
// 256 bits for AVX-512, and its cores before Zen 2, family 21 and the first of family 23, had units of 128 bits for AVX2.
func halvedLevel() Level {
	const auth, before, zen, zen2, zen4 = 0x68747541, 21, 23, 0x30, 25 // "Auth", of AuthenticAMD; zen2 is the model
	if _, vendor := cpuidAVX512(0); vendor != auth {
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
