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

KERNEL relu(const elem* x, elem* y, u32 n) {
	each(i, n) {
		acc v = load(x, i);
		store(y, i, v < 0 ? 0 : v);
	}
}

KERNEL relu_grad(const elem* y, const elem* dy, elem* dx, u32 n) {
	each(i, n) store(dx, i, load(y, i) <= 0 ? 0 : load(dy, i));
}

KERNEL sigmoid(const elem* x, elem* y, u32 n) {
	each(i, n) store(y, i, 1 / (1 + exp(-load(x, i))));
}

KERNEL sigmoid_grad(const elem* y, const elem* dy, elem* dx, u32 n) {
	each(i, n) {
		acc v = load(y, i);
		store(dx, i, load(dy, i) * v * (1 - v));
	}
}

KERNEL tanh_of(const elem* x, elem* y, u32 n) {
	each(i, n) store(y, i, tanh(load(x, i)));
}

KERNEL tanh_grad(const elem* y, const elem* dy, elem* dx, u32 n) {
	each(i, n) {
		acc v = load(y, i);
		store(dx, i, load(dy, i) * (1 - v * v));
	}
}

KERNEL gelu(const elem* x, elem* y, u32 n, int tanh_form) {
	each(i, n) {
		acc v = load(x, i);
		store(y, i, v * gelu_phi(v, tanh_form));
	}
}

KERNEL gelu_grad(const elem* x, const elem* dy, elem* dx, u32 n, int tanh_form) {
	each(i, n) store(dx, i, load(dy, i) * gelu_slope(load(x, i), tanh_form));
}

KERNEL add(const elem* a, const elem* b, elem* y, u32 n) {
	each(i, n) store(y, i, load(a, i) + load(b, i));
}

// add_relu is a residual block's end in one pass.
KERNEL add_relu(const elem* a, const elem* b, elem* y, u32 n) {
	each(i, n) {
		acc v = rounded(load(a, i) + load(b, i));
		store(y, i, v < 0 ? 0 : v);
	}
}

// cast converts between any two types, or adds what it converted.
KERNEL cast(const void* x, int from, void* y, int to, u32 n, int add) {
	each(i, n) store_grad(y, to, i, load_as(x, from, i), add);
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
