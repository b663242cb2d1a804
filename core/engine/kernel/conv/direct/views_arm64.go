package direct

// runViewDots runs the kernel of so many rows and views.
func runViewDots(lanes, rows, views int, t *viewDots) {
	switch rows<<4 | views {
	case 1<<4 | 4:
		viewDots1x4NEON(t)
	case 1<<4 | 5:
		viewDots1x5NEON(t)
	case 1<<4 | 6:
		viewDots1x6NEON(t)
	case 1<<4 | 7:
		viewDots1x7NEON(t)
	case 1<<4 | 8:
		viewDots1x8NEON(t)
	case 2<<4 | 4:
		viewDots2x4NEON(t)
	case 2<<4 | 5:
		viewDots2x5NEON(t)
	case 2<<4 | 6:
		viewDots2x6NEON(t)
	case 3<<4 | 4:
		viewDots3x4NEON(t)
	}
}
