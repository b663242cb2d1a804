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
