package conv

func runDotTile(t *dotTile) { dotTileNEON(t) }
