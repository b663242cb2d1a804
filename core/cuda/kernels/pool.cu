// Pooling, and batch norm + ReLU + max pooling in one pass each way. Gradients
// are gathered: a pixel asks the windows that cover it.

// Pool is the geometry; planes are n·c, out is what a window's mean divides by.
struct Pool {
	int c, h, w, oh, ow, r, s, stride_h, stride_w, pad_h, pad_w, count_padding;
};

struct Window {
	int h0, h1, w0, w1, count;
};

__device__ inline int at_least(int a, int b) { return a > b ? a : b; }
__device__ inline int at_most(int a, int b) { return a < b ? a : b; }

// window is output o of a plane: rows and columns inside the image.
__device__ inline Window window_of(const Pool& p, int o) {
	Window v;
	int h0 = o / p.ow * p.stride_h - p.pad_h, w0 = o % p.ow * p.stride_w - p.pad_w;
	int h1 = at_most(h0 + p.r, p.h + p.pad_h), w1 = at_most(w0 + p.s, p.w + p.pad_w);
	v.h0 = at_least(h0, 0);
	v.h1 = at_most(h1, p.h);
	v.w0 = at_least(w0, 0);
	v.w1 = at_most(w1, p.w);
	v.count = p.count_padding ? (h1 - h0) * (w1 - w0) : (v.h1 - v.h0) * (v.w1 - v.w0);
	v.count = at_least(v.count, 1);
	return v;
}

// windows_over is the range of outputs in one dimension whose windows cover place i.
__device__ inline void windows_over(int i, int kernel, int stride, int pad, int out, int* lo, int* hi) {
	int first = i + pad - kernel + 1;
	*lo = first <= 0 ? 0 : (first + stride - 1) / stride;
	*hi = at_most((i + pad) / stride + 1, out);
}

// Maximum of a window: the first of equals, and a NaN over everything.
struct Max {
	acc best;
	int at;
};

__device__ inline void consider(Max* m, acc v, int at) {
	if (v > m->best || v != v) {
		m->best = v;
		m->at = at;
	}
}

KERNEL max_pool(const elem* x, elem* y, int* places, Pool p, u32 n) {
	each(i, n) {
		u32 out = p.oh * p.ow;
		const elem* plane = x + (i64)(i / out) * p.h * p.w;
		Window v = window_of(p, i % out);
		Max m = {least(), v.h0 * p.w + v.w0};
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) consider(&m, load(plane, h * p.w + w), h * p.w + w);
		store(y, i, m.best);
		places[i] = m.at;
	}
}

KERNEL max_pool_grad(const int* places, const elem* dy, elem* dx, Pool p, u32 n) {
	each(i, n) {
		u32 in = p.h * p.w;
		int at = i % in, h0, h1, w0, w1;
		i64 o = (i64)(i / in) * p.oh * p.ow;
		windows_over(at / p.w, p.r, p.stride_h, p.pad_h, p.oh, &h0, &h1);
		windows_over(at % p.w, p.s, p.stride_w, p.pad_w, p.ow, &w0, &w1);
		acc sum = 0;
		for (int h = h0; h < h1; h++)
			for (int w = w0; w < w1; w++)
				if (places[o + h * p.ow + w] == at) sum += load(dy, o + h * p.ow + w);
		store(dx, i, sum);
	}
}

KERNEL avg_pool(const elem* x, elem* y, Pool p, u32 n) {
	each(i, n) {
		u32 out = p.oh * p.ow;
		const elem* plane = x + (i64)(i / out) * p.h * p.w;
		Window v = window_of(p, i % out);
		acc sum = 0;
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) sum += load(plane, h * p.w + w);
		store(y, i, sum / v.count);
	}
}

KERNEL avg_pool_grad(const elem* dy, elem* dx, Pool p, u32 n) {
	each(i, n) {
		u32 in = p.h * p.w;
		int at = i % in, h0, h1, w0, w1;
		i64 o = (i64)(i / in) * p.oh * p.ow;
		windows_over(at / p.w, p.r, p.stride_h, p.pad_h, p.oh, &h0, &h1);
		windows_over(at % p.w, p.s, p.stride_w, p.pad_w, p.ow, &w0, &w1);
		acc sum = 0;
		for (int h = h0; h < h1; h++)
			for (int w = w0; w < w1; w++) sum += load(dy, o + h * p.ow + w) / window_of(p, h * p.ow + w).count;
		store(dx, i, sum);
	}
}

// An adaptive window i of a dimension runs from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉.
__device__ inline int adaptive_from(int i, int in, int out) { return (int)((i64)i * in / out); }
__device__ inline int adaptive_to(int i, int in, int out) { return (int)(((i64)(i + 1) * in + out - 1) / out); }

KERNEL adaptive_pool(const elem* x, elem* y, int h, int w, int oh, int ow, u32 n) {
	each(i, n) {
		int o = i % (u32)(oh * ow);
		const elem* plane = x + (i64)(i / (u32)(oh * ow)) * h * w;
		int h0 = adaptive_from(o / ow, h, oh), h1 = adaptive_to(o / ow, h, oh);
		int w0 = adaptive_from(o % ow, w, ow), w1 = adaptive_to(o % ow, w, ow);
		acc sum = 0;
		for (int a = h0; a < h1; a++)
			for (int b = w0; b < w1; b++) sum += load(plane, a * w + b);
		store(y, i, sum / ((h1 - h0) * (w1 - w0)));
	}
}

KERNEL adaptive_pool_grad(const elem* dy, elem* dx, int h, int w, int oh, int ow, u32 n) {
	each(i, n) {
		int at = i % (u32)(h * w), y = at / w, x = at % w;
		i64 o = (i64)(i / (u32)(h * w)) * oh * ow;
		acc sum = 0;
		for (int a = (int)((i64)y * oh / h); a < oh && adaptive_from(a, h, oh) <= y; a++) {
			int h0 = adaptive_from(a, h, oh), h1 = adaptive_to(a, h, oh);
			if (h1 <= y) continue;
			for (int b = (int)((i64)x * ow / w); b < ow && adaptive_from(b, w, ow) <= x; b++) {
				int w0 = adaptive_from(b, w, ow), w1 = adaptive_to(b, w, ow);
				if (w1 > x) sum += load(dy, o + a * ow + b) / ((h1 - h0) * (w1 - w0));
			}
		}
		store(dx, i, sum);
	}
}

KERNEL norm_pool(const elem* x, const acc* mean, const acc* invstd, const void* weight, const void* bias, int type, elem* y, int* places, Pool p, u32 n) {
	each(i, n) {
		u32 out = p.oh * p.ow, ch = i / out % p.c;
		const elem* plane = x + (i64)(i / out) * p.h * p.w;
		acc scale, shift, mu = mean[ch];
		affine(invstd, weight, bias, type, ch, &scale, &shift);
		Window v = window_of(p, i % out);
		Max m = {least(), v.h0 * p.w + v.w0};
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) {
				acc f = (load(plane, h * p.w + w) - mu) * scale + shift;
				consider(&m, f < 0 ? 0 : f, h * p.w + w);
			}
		store(y, i, m.best);
		places[i] = m.at;
	}
}

// norm_pool_grad_sums is bn_grad_sums where dy passes ReLU and pooling: a
// maximum that is not positive passes nothing.
KERNEL norm_pool_grad_sums(const elem* x, const elem* y, const elem* dy, const int* places, const acc* mean, Pool p, int n, double* part) {
	u32 lo, hi, ch = blockIdx.x;
	int out = p.oh * p.ow;
	part_of((u32)n * out, &lo, &hi);
	acc sum = 0, dot = 0, mu = mean[ch];
	for (u32 i = lo + threadIdx.x; i < hi; i += BLOCK) {
		i64 o = in_channel(i, p.c, out, ch);
		if (load(y, o) <= 0) continue;
		acc g = load(dy, o);
		sum += g;
		dot += g * (load(x, ((i64)(i / out) * p.c + ch) * p.h * p.w + places[o]) - mu);
	}
	sum = block_sum(sum);
	dot = block_sum(dot);
	if (threadIdx.x != 0) return;
	part += 2 * ((i64)ch * gridDim.y + blockIdx.y);
	part[0] = sum;
	part[1] = dot;
}

// norm_pool_grad_input writes dx, and each share's sum of it. dx may be x.
KERNEL norm_pool_grad_input(const elem* x, const elem* y, const elem* dy, const int* places, const acc* mean, const acc* invstd,
	const void* weight, int type, const double* sums, elem* dx, Pool p, int n, double* part) {
	u32 lo, hi, ch = blockIdx.x;
	int in = p.h * p.w;
	part_of((u32)n * in, &lo, &hi);
	acc mean_dy, slope, scale, mu = mean[ch], total = 0;
	input_slope(sums, invstd, weight, type, p.c, ch, &mean_dy, &slope, &scale);
	for (u32 i = lo + threadIdx.x; i < hi; i += BLOCK) {
		int at = i % in, h0, h1, w0, w1;
		i64 plane = (i64)(i / in) * p.c + ch, o = plane * p.oh * p.ow;
		windows_over(at / p.w, p.r, p.stride_h, p.pad_h, p.oh, &h0, &h1);
		windows_over(at % p.w, p.s, p.stride_w, p.pad_w, p.ow, &w0, &w1);
		acc g = 0;
		for (int h = h0; h < h1; h++)
			for (int w = w0; w < w1; w++) {
				i64 j = o + h * p.ow + w;
				if (places[j] == at && !(load(y, j) <= 0)) g += load(dy, j);
			}
		acc v = (g - mean_dy - (load(x, plane * in + at) - mu) * slope) * scale;
		store(dx, plane * in + at, v);
		total += v;
	}
	total = block_sum(total);
	if (threadIdx.x == 0) part[(i64)ch * gridDim.y + blockIdx.y] = total;
}
