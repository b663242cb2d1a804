//go:build !amd64

package kernel

// NoVectors stands for every vector kernel that an architecture lacks: the active level is
// none that would call it.
func NoVectors() { panic("kernel: no such vector kernel on this architecture") }
