package peak

import "github.com/trainctl/trainctl/core/engine/kernel"

func multiplyAdds(rounds int) (lanes int) {
	if kernel.Current() == kernel.NEON {
		multiplyAddsNEON(rounds)
		return 8
	}
	multiplyAddsGeneric(rounds)
	return 1
}
