//go:build !amd64

package kernel

func available() []Level { return []Level{Generic} }

// NoVectors stands for every vector kernel on an architecture without any: the level is
// Generic there, Head gives 0, and nobody calls it.
func NoVectors() { panic("kernel: no vector kernels on this architecture") }
