// permute copies a tensor with its dimensions in another order: size_i are the output's, stride_i
// the input's of the same dimensions.
KERNEL permute(const elem* x, elem* y, int size1, int size2, int size3, int size4, int size5,
	int stride0, int stride1, int stride2, int stride3, int stride4, int stride5, u32 n) {
	each(i, n) {
		u32 rest = i;
		i64 at = (i64)(rest % size5) * stride5;
		rest /= size5;
		at += (i64)(rest % size4) * stride4;
		rest /= size4;
		at += (i64)(rest % size3) * stride3;
		rest /= size3;
		at += (i64)(rest % size2) * stride2;
		rest /= size2;
		at += (i64)(rest % size1) * stride1 + (i64)(rest / size1) * stride0;
		y[i] = x[at];
	}
}
