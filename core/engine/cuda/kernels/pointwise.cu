// Functions of one element: what their files share, sums, masks and casts.

__device__ inline acc relu_value(acc x) { return x < 0 ? 0 : x; }
__device__ inline acc clipped_sum(acc a, acc b) { return relu_value(rounded(a + b)); }

// function_of is the body of a kernel y[i] = f(v), where v is x[i], and
// function_of_two of dx[i] = f(v, dv), where dv is dy[i]. f is an expression.
#define function_of(f)                    \
	each_four(i, n) {                     \
		four a = load_four(x, i, n);      \
		for (int j = 0; j < 4; j++) {     \
			acc v = a.v[j];               \
			a.v[j] = f;                   \
		}                                 \
		store_four(y, i, n, a);           \
	}
#define function_of_two(f)                                        \
	each_four(i, n) {                                             \
		four a = load_four(x, i, n), b = load_four(dy, i, n);     \
		for (int j = 0; j < 4; j++) {                             \
			acc v = a.v[j], dv = b.v[j];                          \
			a.v[j] = f;                                           \
		}                                                         \
		store_four(dx, i, n, a);                                  \
	}

KERNEL add(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(v + dv) }
KERNEL add_relu(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(clipped_sum(v, dv)) } // a residual block's end in one pass

// cast converts between any two types, or adds what it converted.
KERNEL cast(const void* x, int from, void* y, int to, u32 n, int add) {
	each(i, n) store_grad(y, to, i, load_as(x, from, i), add);
}

// convert_layout casts images between channels first and channels last.
KERNEL convert_layout(const void* x, int from, void* y, int to, int c, int hw, int last, u32 n) {
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
