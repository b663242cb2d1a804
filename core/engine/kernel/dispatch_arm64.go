package kernel

// available is the same everywhere but for FEAT_BF16: every arm64 that Go runs on has NEON.
func available() []Level {
	if hasBF16() {
		return []Level{NEONBF16, NEON, Generic}
	}
	return []Level{NEON, Generic}
}

func halvedLevel() Level { return unresolved }
