package kernel

func multiplyAdds(rounds int) (lanes int) {
	switch level() {
	case AVX512:
		multiplyAddsAVX512(rounds)
		return 16
	case AVX2:
		multiplyAddsAVX2(rounds)
		return 8
	}
	multiplyAddsGeneric(rounds)
	return 1
}
