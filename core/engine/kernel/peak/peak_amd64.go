package peak

import "github.com/trainctl/trainctl/core/engine/kernel"

func multiplyAdds(rounds int) (lanes int) {
	switch kernel.Current() {
	case kernel.AVX512:
		multiplyAddsAVX512(rounds)
		return 16
	case kernel.AVX2:
		multiplyAddsAVX2(rounds)
		return 8
	}
	multiplyAddsGeneric(rounds)
	return 1
}

func runPairMultiplyAdds(rounds int) { multiplyAddsBF16(rounds) }
