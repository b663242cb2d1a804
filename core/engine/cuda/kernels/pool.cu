// Pooling, and batch norm + ReLU + max pooling in one pass each way. Gradients are
// gathered: each pixel reads the windows that cover it.

// Pool is the geometry. last: x and y are channels-last.
struct Pool {
	int c, h, w, oh, ow, r, s, stride_h, stride_w, pad_h, pad_w, count_padding, last;
};

// Spot is element i of images: its channel, its place in the plane, and where
// the planes of two sizes begin. The elements of a plane are step apart.
struct Spot {
	u32 ch, at, image, step;
};

__device__ inline Spot spot_of(u32 i, int c, u32 size, int last) {
	Spot s;
	if (last) {
		s.ch = i % c;
		s.at = i / c % size;
		s.image = i / c / size;
		s.step = c;
	} else {
		s.at = i % size;
		s.ch = i / size % c;
		s.image = i / size / c;
		s.step = 1;
	}
	return s;
}

// plane_of is where the spot's plane begins in images of another size.
__device__ inline i64 plane_of(const Spot& s, int c, u32 size, int last) {
	return last ? (i64)s.image * size * c + s.ch : ((i64)s.image * c + s.ch) * size;
}

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

// Cover is the outputs whose windows cover a pixel: rows [h0, h1), columns [w0, w1).
struct Cover {
	int h0, h1, w0, w1;
};

__device__ inline Cover cover_of(const Pool& p, u32 at) {
	Cover v;
	windows_over(at / p.w, p.r, p.stride_h, p.pad_h, p.oh, &v.h0, &v.h1);
	windows_over(at % p.w, p.s, p.stride_w, p.pad_w, p.ow, &v.w0, &v.w1);
	return v;
}

// The maximum of a window: the first of equal ones; a NaN is larger than everything.
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
		Spot o = spot_of(i, p.c, p.oh * p.ow, p.last);
		const elem* plane = x + plane_of(o, p.c, p.h * p.w, p.last);
		Window v = window_of(p, o.at);
		Max m = {least(), v.h0 * p.w + v.w0};
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) consider(&m, load(plane, (i64)(h * p.w + w) * o.step), h * p.w + w);
		store(y, i, m.best);
		places[i] = m.at;
	}
}

KERNEL max_pool_grad(const int* places, const elem* dy, elem* dx, Pool p, u32 n) {
	each(i, n) {
		Spot x = spot_of(i, p.c, p.h * p.w, p.last);
		i64 o = plane_of(x, p.c, p.oh * p.ow, p.last);
		Cover v = cover_of(p, x.at);
		acc sum = 0;
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) {
				i64 j = o + (i64)(h * p.ow + w) * x.step;
				if (places[j] == (int)x.at) sum += load(dy, j);
			}
		store(dx, i, sum);
	}
}

KERNEL avg_pool(const elem* x, elem* y, Pool p, u32 n) {
	each(i, n) {
		Spot o = spot_of(i, p.c, p.oh * p.ow, p.last);
		const elem* plane = x + plane_of(o, p.c, p.h * p.w, p.last);
		Window v = window_of(p, o.at);
		acc sum = 0;
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) sum += load(plane, (i64)(h * p.w + w) * o.step);
		store(y, i, sum / v.count);
	}
}

KERNEL avg_pool_grad(const elem* dy, elem* dx, Pool p, u32 n) {
	each(i, n) {
		Spot x = spot_of(i, p.c, p.h * p.w, p.last);
		i64 o = plane_of(x, p.c, p.oh * p.ow, p.last);
		Cover v = cover_of(p, x.at);
		acc sum = 0;
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) sum += load(dy, o + (i64)(h * p.ow + w) * x.step) / window_of(p, h * p.ow + w).count;
		store(dx, i, sum);
	}
}

// An adaptive window i of a dimension runs from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉.
__device__ inline int adaptive_from(int i, int in, int out) { return (int)((i64)i * in / out); }
__device__ inline int adaptive_to(int i, int in, int out) { return (int)(((i64)(i + 1) * in + out - 1) / out); }

KERNEL adaptive_pool(const elem* x, elem* y, int c, int h, int w, int oh, int ow, int last, u32 n) {
	each(i, n) {
		Spot o = spot_of(i, c, oh * ow, last);
		const elem* plane = x + plane_of(o, c, h * w, last);
		int h0 = adaptive_from(o.at / ow, h, oh), h1 = adaptive_to(o.at / ow, h, oh);
		int w0 = adaptive_from(o.at % ow, w, ow), w1 = adaptive_to(o.at % ow, w, ow);
		acc sum = 0;
		for (int a = h0; a < h1; a++)
			for (int b = w0; b < w1; b++) sum += load(plane, (i64)(a * w + b) * o.step);
		store(y, i, sum / ((h1 - h0) * (w1 - w0)));
	}
}

KERNEL adaptive_pool_grad(const elem* dy, elem* dx, int c, int h, int w, int oh, int ow, int last, u32 n) {
	each(i, n) {
		Spot at = spot_of(i, c, h * w, last);
		int y = at.at / w, x = at.at % w;
		i64 o = plane_of(at, c, oh * ow, last);
		acc sum = 0;
		for (int a = (int)((i64)y * oh / h); a < oh && adaptive_from(a, h, oh) <= y; a++) {
			int h0 = adaptive_from(a, h, oh), h1 = adaptive_to(a, h, oh);
			if (h1 <= y) continue;
			for (int b = (int)((i64)x * ow / w); b < ow && adaptive_from(b, w, ow) <= x; b++) {
				int w0 = adaptive_from(b, w, ow), w1 = adaptive_to(b, w, ow);
				if (w1 > x) sum += load(dy, o + (i64)(a * ow + b) * at.step) / ((h1 - h0) * (w1 - w0));
			}
		}
		store(dx, i, sum);
	}
}

KERNEL norm_pool(const elem* x, const acc* mean, const acc* scales, const acc* shifts, elem* y, int* places, Pool p, u32 n) {
	each(i, n) {
		Spot o = spot_of(i, p.c, p.oh * p.ow, p.last);
		const elem* plane = x + plane_of(o, p.c, p.h * p.w, p.last);
		acc scale = scales[o.ch], shift = shifts[o.ch], mu = mean[o.ch];
		Window v = window_of(p, o.at);
		Max m = {least(), v.h0 * p.w + v.w0};
		for (int h = v.h0; h < v.h1; h++)
			for (int w = v.w0; w < v.w1; w++) consider(&m, relu_value((load(plane, (i64)(h * p.w + w) * o.step) - mu) * scale + shift), h * p.w + w);
		store(y, i, m.best);
		places[i] = m.at;
	}
}

// norm_pool_grad_sums is bn_grad_sums where dy passes ReLU and pooling: a
// maximum that is not positive passes nothing.
KERNEL norm_pool_grad_sums(const elem* x, const elem* y, const elem* dy, const int* places, const acc* mean, Pool p, int n, u32 lanes, double* part) {
	u32 out = p.oh * p.ow, in = p.h * p.w;
	Share s = share_of(n * out, p.c, lanes);
	acc sum = 0, dot = 0, mu = s.idle ? 0 : mean[s.ch];
	for (u32 i = s.from; i < s.hi; i += s.step) {
		Spot at = {s.ch, i % out, i / out, p.last ? (u32)p.c : 1};
		i64 o = plane_of(at, p.c, out, p.last) + (i64)at.at * at.step;
		if (load(y, o) <= 0) continue;
		acc g = load(dy, o);
		sum += g;
		dot += g * (load(x, plane_of(at, p.c, in, p.last) + (i64)places[o] * at.step) - mu);
	}
	store_lane_sums(s, sum, dot, lanes, part);
}

// norm_pool_grad_input writes dx, and each share's sum of it. dx may be x.
KERNEL norm_pool_grad_input(const elem* x, const elem* y, const elem* dy, const int* places, const acc* mean, const acc* slopes,
	elem* dx, Pool p, int n, u32 lanes, double* part) {
	u32 out = p.oh * p.ow, in = p.h * p.w;
	Share s = share_of(n * in, p.c, lanes);
	acc mean_dy = 0, slope = 0, scale = 0, mu = s.idle ? 0 : mean[s.ch], total = 0;
	if (!s.idle) {
		mean_dy = slopes[s.ch];
		slope = slopes[p.c + s.ch];
		scale = slopes[2 * p.c + s.ch];
	}
	for (u32 i = s.from; i < s.hi; i += s.step) {
		int h0, h1, w0, w1;
		Spot at = {s.ch, i % in, i / in, p.last ? (u32)p.c : 1};
		i64 o = plane_of(at, p.c, out, p.last), to = plane_of(at, p.c, in, p.last) + (i64)at.at * at.step;
		windows_over(at.at / p.w, p.r, p.stride_h, p.pad_h, p.oh, &h0, &h1);
		windows_over(at.at % p.w, p.s, p.stride_w, p.pad_w, p.ow, &w0, &w1);
		acc g = 0;
		for (int h = h0; h < h1; h++)
			for (int w = w0; w < w1; w++) {
				i64 j = o + (i64)(h * p.ow + w) * at.step;
				if (places[j] == (int)at.at && !(load(y, j) <= 0)) g += load(dy, j);
			}
		acc v = (g - mean_dy - (load(x, to) - mu) * slope) * scale;
		store(dx, to, v);
		total += v;
	}
	total = lane_sum(total, lanes);
	if (first(s)) part[(i64)s.ch * gridDim.y + blockIdx.y] = total;
}
