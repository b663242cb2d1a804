//go:build !amd64

package kernel

func available() []Level { return []Level{Generic} }
