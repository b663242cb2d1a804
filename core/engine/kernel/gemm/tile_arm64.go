package gemm

// RunTile computes a tile of the given height.
func RunTile(rows int, t *Tile) {
	switch rows {
	case 1:
		tile1NEON(t)
	case 2:
		tile2NEON(t)
	case 3:
		tile3NEON(t)
	case 4:
		tile4NEON(t)
	case 5:
		tile5NEON(t)
	case 6:
		tile6NEON(t)
	}
}
