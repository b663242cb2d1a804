// Upsampling by a whole factor; bilinear takes pixels' centres.

struct Taps {
	int low, high;
	acc share; // of high
};

__device__ inline Taps taps_of(int i, int factor, int n, int bilinear) {
	Taps t = {i / factor, i / factor, 0};
	if (bilinear) {
		double at = (i + 0.5) / factor - 0.5;
		if (at < 0) at = 0;
		t.low = (int)at;
		t.high = t.low + 1 < n ? t.low + 1 : n - 1;
		t.share = (acc)(at - t.low);
	}
	return t;
}

KERNEL upsample(const elem* x, int h, int w, int factor, int bilinear, elem* y, u32 n) {
	u32 wide = w * factor, high = h * factor;
	each(i, n) {
		Taps r = taps_of(i / wide % high, factor, h, bilinear), c = taps_of(i % wide, factor, w, bilinear);
		const elem* p = x + (i64)(i / wide / high) * h * w;
		acc v = load(p, r.low * w + c.low);
		if (bilinear) {
			acc a = (1 - c.share) * v + c.share * load(p, r.low * w + c.high);
			acc b = (1 - c.share) * load(p, r.high * w + c.low) + c.share * load(p, r.high * w + c.high);
			v = (1 - r.share) * a + r.share * b;
		}
		store(y, i, v);
	}
}

// reach is how much of input at output i is made of.
__device__ inline acc reach(int i, int at, int factor, int n, int bilinear) {
	Taps t = taps_of(i, factor, n, bilinear);
	return (t.low == at ? 1 - t.share : 0) + (t.high == at ? t.share : 0);
}

// upsample_grad gathers the outputs that an input reaches: those within a factor of its own.
KERNEL upsample_grad(const elem* dy, int h, int w, int factor, int bilinear, elem* dx, u32 n) {
	int wide = w * factor, high = h * factor;
	each(i, n) {
		int row = i / w % h, col = i % w;
		const elem* p = dy + (i64)(i / w / h) * high * wide;
		acc sum = 0;
		for (int r = row > 0 ? (row - 1) * factor : 0; r < high && r < (row + 2) * factor; r++)
			for (int c = col > 0 ? (col - 1) * factor : 0; c < wide && c < (col + 2) * factor; c++)
				sum += reach(r, row, factor, h, bilinear) * reach(c, col, factor, w, bilinear) * load(p, (i64)r * wide + c);
		store(dx, i, sum);
	}
}
