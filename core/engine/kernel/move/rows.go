package move

// Rows copies rows of width bytes from src, where they start stride bytes apart, to dst.
// A nil src stands for zeros.
func Rows(rows, width int, dst []byte, dstStride int, src []byte, srcStride int) {
	for r := range rows {
		to := dst[r*dstStride:][:width]
		if src == nil {
			clear(to)
			continue
		}
		copy(to, src[r*srcStride:][:width])
	}
}
