package pool

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPoolTile(t *poolTile) {
	if kernel.Wide() {
		maxPool2AVX512(t)
	} else {
		maxPool2AVX2(t)
	}
}

func runNormPoolTile(t *poolTile) { normPool2AVX512(t) }
