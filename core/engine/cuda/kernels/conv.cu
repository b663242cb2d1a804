// Convolutions for machines without cuDNN: correct, but slow.

struct Conv {
	int n, c, h, w, k, r, s, oh, ow, stride_h, stride_w, pad_h, pad_w, dil_h, dil_w, groups;
};

// conv has a thread per result.
KERNEL conv(const elem* x, const elem* w, const elem* bias, elem* y, Conv p, u32 total) {
	int cg = p.c / p.groups, kg = p.k / p.groups;
	each(i, total) {
		int ow = i % p.ow, oh = i / p.ow % p.oh, k = i / (p.ow * p.oh) % p.k, n = i / (p.ow * p.oh * p.k);
		acc sum = 0;
		for (int c = 0; c < cg; c++) {
			const elem* plane = x + ((i64)n * p.c + k / kg * cg + c) * p.h * p.w;
			for (int r = 0; r < p.r; r++) {
				int h = oh * p.stride_h - p.pad_h + r * p.dil_h;
				if (h < 0 || h >= p.h) continue;
				for (int s = 0; s < p.s; s++) {
					int at = ow * p.stride_w - p.pad_w + s * p.dil_w;
					if (at < 0 || at >= p.w) continue;
					sum += load(plane, h * p.w + at) * load(w, (((i64)k * cg + c) * p.r + r) * p.s + s);
				}
			}
		}
		if (bias) sum += load(bias, k);
		store(y, i, sum);
	}
}

// conv_grad_input has a thread per input pixel, which sums over the outputs that read
// it.
KERNEL conv_grad_input(const elem* dy, const elem* w, const elem* bias, elem* dx, Conv p, u32 total) {
	int cg = p.c / p.groups, kg = p.k / p.groups;
	each(i, total) {
		int iw = i % p.w, ih = i / p.w % p.h, c = i / (p.w * p.h) % p.c, n = i / (p.w * p.h * p.c);
		acc sum = 0;
		for (int r = 0; r < p.r; r++) {
			int h = ih + p.pad_h - r * p.dil_h;
			if (h < 0 || h % p.stride_h || h / p.stride_h >= p.oh) continue;
			for (int s = 0; s < p.s; s++) {
				int at = iw + p.pad_w - s * p.dil_w;
				if (at < 0 || at % p.stride_w || at / p.stride_w >= p.ow) continue;
				for (int f = 0; f < kg; f++) {
					int k = c / cg * kg + f;
					sum += load(dy, (((i64)n * p.k + k) * p.oh + h / p.stride_h) * p.ow + at / p.stride_w) * load(w, (((i64)k * cg + c % cg) * p.r + r) * p.s + s);
				}
			}
		}
		if (bias) sum += load(bias, c); // of a transposed convolution
		store(dx, i, sum);
	}
}

// conv_grad_weight has a block per weight.
KERNEL conv_grad_weight(const elem* x, const elem* dy, elem* dw, Conv p, int add) {
	u32 i = blockIdx.x;
	int cg = p.c / p.groups, kg = p.k / p.groups, out = p.oh * p.ow;
	int s = i % p.s, r = i / p.s % p.r, c = i / (p.s * p.r) % cg, k = i / (p.s * p.r * cg);
	acc sum = 0;
	for (u32 j = threadIdx.x; j < (u32)p.n * out; j += BLOCK) {
		int n = j / out, o = j % out;
		int h = o / p.ow * p.stride_h - p.pad_h + r * p.dil_h, w = o % p.ow * p.stride_w - p.pad_w + s * p.dil_w;
		if (h < 0 || h >= p.h || w < 0 || w >= p.w) continue;
		sum += load(dy, ((i64)n * p.k + k) * out + o) * load(x, (((i64)n * p.c + k / kg * cg + c) * p.h + h) * p.w + w);
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0) store(dw, i, add ? rounded(sum) + load(dw, i) : sum);
}

// channel_bias adds the bias of each channel.
KERNEL channel_bias(elem* y, const elem* bias, int c, int hw, u32 n) {
	each_four(i, n) {
		four f = load_four(y, i, n);
		Channels k = channels_of(i, c, hw);
		for (int j = 0; j < 4; j++) f.v[j] += load(bias, k.ch[j]);
		store_four(y, i, n, f);
	}
}

// filter_last permutes a filter [k, c, taps] into [k, taps, c].
KERNEL filter_last(const elem* w, elem* to, int c, int taps, u32 n) {
	each(i, n) to[i] = w[(i64)(i / (c * taps)) * c * taps + (i64)(i % c) * taps + i / c % taps];
}

// filter_grad writes or adds a gradient [k, taps, c] as [k, c, taps].
KERNEL filter_grad(const elem* from, elem* dw, int c, int taps, int add, u32 n) {
	each(i, n) {
		acc v = load(from, (i64)(i / (c * taps)) * c * taps + (i64)(i % taps) * c + i / taps % c);
		store(dw, i, add ? v + load(dw, i) : v);
	}
}
