//go:build !amd64

package peak

import "github.com/trainctl/trainctl/core/engine/kernel"

func multiplyAdds(rounds int) (lanes int) {
	multiplyAddsGeneric(rounds)
	return 1
}

func runPairMultiplyAdds(rounds int) { kernel.NoVectors() }
