// Parts of rows, for concatenation and splitting.

// copy_rows copies rows of width elements; without x it writes zeros.
KERNEL copy_rows(const elem* x, int x_stride, int x_from, elem* y, int y_stride, int y_from, int width, u32 n) {
	each(i, n) {
		i64 row = i / width, at = i % width;
		elem zero = 0;
		y[row * y_stride + y_from + at] = x ? x[row * x_stride + x_from + at] : zero;
	}
}
