package kernel

// available is the same everywhere: every arm64 that Go runs on has NEON.
func available() []Level { return []Level{NEON, Generic} }
