//go:build !amd64

package kernel

func multiplyAdds(rounds int) (lanes int) {
	multiplyAddsGeneric(rounds)
	return 1
}
