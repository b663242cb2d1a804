package planes

// runPlaneTile computes groups of that many vectors.
func runPlaneTile(_, vectors int, t *planeTile) {
	switch vectors {
	case 8:
		planeTile8NEON(t)
	case 4:
		planeTile4NEON(t)
	case 2:
		planeTile2NEON(t)
	case 1:
		planeTile1NEON(t)
	}
}

func runPlaneDots(_ int, t *planeDots) { planeDotsNEON(t) }
