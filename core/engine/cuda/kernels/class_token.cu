// A learned vector before the positions of every sample; sample counts the elements with it.

KERNEL class_token(const elem* x, const elem* token, u32 sample, u32 width, elem* y, u32 n) {
	each(i, n) {
		u32 at = i % sample;
		y[i] = at < width ? token[at] : x[(i64)(i / sample) * (sample - width) + at - width];
	}
}

KERNEL class_token_grad(const elem* dy, int samples, u32 sample, void* dtoken, int type, int add, u32 n) {
	each(i, n) {
		acc sum = 0;
		for (int s = 0; s < samples; s++) sum += load(dy, (i64)s * sample + i);
		store_grad(dtoken, type, i, sum, add);
	}
}
