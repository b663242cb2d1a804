package kernel

// BlockSize is the number of coefficients of a square of 8×8.
const BlockSize = 64

// HasInverseDCT reports whether InverseDCT may be called: there is none in plain
// Go, for which image/jpeg is as good.
func HasInverseDCT() bool { return level() != Generic }

// InverseDCT turns the coefficients of a square of a JPEG image, multiplied by
// their quantizers and lying column by column, into 8 rows of 8 bytes, stride
// apart, with the bits of image/jpeg.
func InverseDCT(dst []byte, stride int, coefficients *[BlockSize]int32) {
	if !HasInverseDCT() {
		panic("kernel: no inverse DCT at this level")
	}
	_ = dst[7*stride+7]
	vecInverseDCT(dst, stride, coefficients)
}
