// Functions of one element: activations, their slopes, sums, masks and casts.

__device__ inline acc gelu_phi(acc x, int tanh_form) {
	const acc scale = (acc)0.7978845608028654, cubic = (acc)0.044715;
	if (tanh_form) return (acc)0.5 * (1 + tanh(scale * (x + cubic * x * x * x)));
	return (acc)0.5 * (1 + erf(x * (acc)0.7071067811865476));
}

__device__ inline acc gelu_slope(acc x, int tanh_form) {
	const acc scale = (acc)0.7978845608028654, cubic = (acc)0.044715, density = (acc)0.3989422804014327;
	if (!tanh_form) return gelu_phi(x, 0) + x * density * exp((acc)-0.5 * x * x);
	acc t = tanh(scale * (x + cubic * x * x * x));
	return (acc)0.5 * (1 + t) + (acc)0.5 * x * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
}

__device__ inline acc relu_of(acc x) { return x < 0 ? 0 : x; }
__device__ inline acc relu_slope(acc y, acc dy) { return y <= 0 ? 0 : dy; }
__device__ inline acc sigmoid_of(acc x) { return 1 / (1 + exp(-x)); }
__device__ inline acc sigmoid_slope(acc y, acc dy) { return dy * y * (1 - y); }
__device__ inline acc hyperbolic(acc x) { return tanh(x); }
__device__ inline acc hyperbolic_slope(acc y, acc dy) { return dy * (1 - y * y); }
__device__ inline acc sum_of(acc a, acc b) { return a + b; }
__device__ inline acc clipped_sum(acc a, acc b) { return relu_of(rounded(a + b)); }

// function_of is the body of a kernel y[i] = f(x[i]), function_of_two of y[i] = f(x[i], w[i]).
#define function_of(f)                                  \
	each_four(i, n) {                                   \
		four a = load_four(x, i, n);                    \
		for (int j = 0; j < 4; j++) a.v[j] = f(a.v[j]); \
		store_four(y, i, n, a);                         \
	}
#define function_of_two(f)                                          \
	each_four(i, n) {                                               \
		four a = load_four(x, i, n), b = load_four(w, i, n);        \
		for (int j = 0; j < 4; j++) a.v[j] = f(a.v[j], b.v[j]);     \
		store_four(y, i, n, a);                                     \
	}

KERNEL relu(const elem* x, elem* y, u32 n) { function_of(relu_of) }
KERNEL sigmoid(const elem* x, elem* y, u32 n) { function_of(sigmoid_of) }
KERNEL tanh_of(const elem* x, elem* y, u32 n) { function_of(hyperbolic) }
KERNEL relu_grad(const elem* x, const elem* w, elem* y, u32 n) { function_of_two(relu_slope) }
KERNEL sigmoid_grad(const elem* x, const elem* w, elem* y, u32 n) { function_of_two(sigmoid_slope) }
KERNEL tanh_grad(const elem* x, const elem* w, elem* y, u32 n) { function_of_two(hyperbolic_slope) }
KERNEL add(const elem* x, const elem* w, elem* y, u32 n) { function_of_two(sum_of) }
KERNEL add_relu(const elem* x, const elem* w, elem* y, u32 n) { function_of_two(clipped_sum) } // a residual block's end in one pass

KERNEL gelu(const elem* x, elem* y, u32 n, int tanh_form) {
	each(i, n) {
		acc v = load(x, i);
		store(y, i, v * gelu_phi(v, tanh_form));
	}
}

KERNEL gelu_grad(const elem* x, const elem* dy, elem* dx, u32 n, int tanh_form) {
	each(i, n) store(dx, i, load(dy, i) * gelu_slope(load(x, i), tanh_form));
}

// cast converts between any two types, or adds what it converted.
KERNEL cast(const void* x, int from, void* y, int to, u32 n, int add) {
	each(i, n) store_grad(y, to, i, load_as(x, from, i), add);
}

// turn is a cast of images between planes of one channel and pixels with their channels side by side.
KERNEL turn(const void* x, int from, void* y, int to, int c, int hw, int last, u32 n) {
	each(i, n) {
		u32 inner = last ? c : hw, outer = last ? hw : c; // of what is written
		i64 at = ((i64)(i / inner / outer) * inner + i % inner) * outer + i / inner % outer;
		store_as(y, to, i, load_as(x, from, at));
	}
}

// philox is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011).
__device__ inline void philox(u32 c[4], u32 k0, u32 k1) {
	for (int round = 0; round < 10; round++) {
		u64 a = (u64)0xD2511F53u * c[0], b = (u64)0xCD9E8D57u * c[2];
		u32 c1 = c[1], c3 = c[3];
		c[0] = (u32)(b >> 32) ^ c1 ^ k0;
		c[1] = (u32)b;
		c[2] = (u32)(a >> 32) ^ c3 ^ k1;
		c[3] = (u32)a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}

// dropout draws the mask of element i from (seed, stream, i) alone: the word i%4
// of block i/4. Words below drop, of 2^32, give a zero.
KERNEL dropout(const Call* call, u64 layer, u64 drop, acc scale, const elem* x, elem* y, u8* mask, u32 n) {
	u64 stream = call->stream | layer, seed = call->seed;
	each(b, (n + 3) / 4) {
		u32 words[4] = {b, 0, (u32)stream, (u32)(stream >> 32)};
		philox(words, (u32)seed, (u32)(seed >> 32));
		for (u32 j = 0; j < 4 && 4 * b + j < n; j++) {
			u32 i = 4 * b + j;
			mask[i] = (u64)words[j] >= drop;
			store(y, i, mask[i] ? load(x, i) * scale : 0);
		}
	}
}

KERNEL dropout_grad(const u8* mask, acc scale, const elem* dy, elem* dx, u32 n) {
	each(i, n) store(dx, i, mask[i] ? load(dy, i) * scale : 0);
}
