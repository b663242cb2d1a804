//go:build !amd64 && !arm64

package peak

func multiplyAdds(rounds int) (lanes int) {
	multiplyAddsGeneric(rounds)
	return 1
}
