//go:build !amd64 && !arm64

package kernel

func available() []Level { return []Level{Generic} }

func halvedLevel() Level { return unresolved }
