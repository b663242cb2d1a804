package direct

func runDotTile(s dotShape, t *dotTile) {
	if s.cols == 3 {
		dotTile4x3NEON(t)
	} else {
		dotTile3x4NEON(t)
	}
}
