//go:build !amd64 && !arm64

package kernel

func available() []Level { return []Level{Generic} }

func halvesVectors() bool { return false }
