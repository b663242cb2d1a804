package direct

func runPairDots(t *dotTile) { dotTileBF16(t) }

func runDotTile(s dotShape, t *dotTile) {
	switch s.cols {
	case 3:
		dotTile4x3AVX2(t)
	case 4:
		dotTile3x4AVX2(t)
	default:
		dotTileAVX512(t)
	}
}
