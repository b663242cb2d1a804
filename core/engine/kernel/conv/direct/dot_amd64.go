package direct

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPairDots(t *dotTile) { dotTileBF16(t) }

func runDotTile(t *dotTile) {
	if kernel.Wide() {
		dotTileAVX512(t)
	} else {
		dotTileAVX2(t)
	}
}
