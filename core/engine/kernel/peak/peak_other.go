//go:build !amd64

package peak

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPairMultiplyAdds(rounds int) { kernel.NoVectors() }
