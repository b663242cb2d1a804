package direct

func runDotTile(t *dotTile) { dotTileNEON(t) }
