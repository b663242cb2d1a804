// Attention of several heads, a block per query or key. No matrix of all queries
// and keys exists: backward recomputes probabilities from log Σexp.

// Heads says where vectors of dim elements lie: of query head h of sample n at
// q + (n·queries + t)·q_stride + h·dim, and of key head h at k + (n·keys + t)·k_stride + h·dim.
struct Heads {
	int heads, kv_heads, dim, queries, keys, q_stride, k_stride, v_stride, causal, row_len;
	double scale, theta;
	u64 layer, drop;
	double kept;
};

// DIMS is how many elements of a head a thread keeps, for heads of up to 512.
#define DIMS (512 / BLOCK)

struct Vector {
	acc v[DIMS];
};

// Rope says by how many radians per position pairs of elements turn, and what they are multiplied by.
struct Rope {
	float frequencies[256];
	double gain;
};

// rope_turn rotates rows by their positions, or back. Angles are float.
KERNEL rope_turn(const elem* x, int x_stride, elem* y, int y_stride, int positions, int heads, int dim, Rope r, int back, u32 n) {
	int half = dim / 2;
	each(i, n) {
		int j = i % half, h = i / half % heads;
		i64 row = i / half / heads;
		float angle = (float)(row % positions) * r.frequencies[j];
		acc c = (acc)(r.gain * cos((double)angle)), s = (acc)(r.gain * sin((double)angle));
		if (back) s = -s;
		const elem* from = x + row * x_stride + h * dim;
		elem* to = y + row * y_stride + h * dim;
		acc a = load(from, j), b = load(from, j + half);
		store(to, j, a * c - b * s);
		store(to, j + half, b * c + a * s);
	}
}

__device__ inline acc dot_of(const elem* a, const elem* b, int dim) {
	acc sum = 0;
	for (int d = 0; d < dim; d++) sum += load(a, d) * load(b, d);
	return sum;
}

// weight_of is what dropout multiplies the probability of a query and a key by.
__device__ inline acc weight_of(const Heads& g, const Call* call, u64 row, int key) {
	if (!call || !g.drop) return 1;
	u64 i = row * g.row_len + key, stream = call->stream | g.layer;
	u32 words[4] = {(u32)(i / 4), (u32)(i / 4 >> 32), (u32)stream, (u32)(stream >> 32)};
	philox(words, (u32)call->seed, (u32)(call->seed >> 32));
	return (u64)words[i % 4] >= g.drop ? (acc)g.kept : 0;
}

// attention has blocks of x queries and y heads of all samples.
KERNEL attention(const elem* q, const elem* k, const elem* v, elem* y, acc* lse, Heads g, const Call* call) {
	__shared__ acc p[BLOCK];
	int t = blockIdx.x, h = blockIdx.y % g.heads, n = blockIdx.y / g.heads, kv = h / (g.heads / g.kv_heads);
	int keys = g.causal && t + 1 < g.keys ? t + 1 : g.keys;
	u64 row = (u64)blockIdx.y * g.queries + t;
	q += ((i64)n * g.queries + t) * g.q_stride + h * g.dim;
	k += (i64)n * g.keys * g.k_stride + kv * g.dim;
	v += (i64)n * g.keys * g.v_stride + kv * g.dim;
	y += (((i64)n * g.queries + t) * g.heads + h) * g.dim;
	acc top = least(), sum = 0;
	Vector o = {};
	for (int from = 0; from < keys; from += BLOCK) {
		int key = from + threadIdx.x;
		acc s = key < keys ? dot_of(q, k + (i64)key * g.k_stride, g.dim) * (acc)g.scale : (acc)least();
		acc peak = block_max(s);
		if (!(peak > top)) peak = top;
		acc shrink = exp(top - peak), e = key < keys ? exp(s - peak) : 0;
		sum = sum * shrink + block_sum(e);
		top = peak;
		p[threadIdx.x] = key < keys ? e * weight_of(g, call, row, key) : 0;
		__syncthreads();
		for (int j = 0, d = threadIdx.x; d < g.dim; d += BLOCK, j++) {
			acc add = 0;
			for (int i = 0; i < BLOCK && from + i < keys; i++) add += p[i] * load(v, (i64)(from + i) * g.v_stride + d);
			o.v[j] = o.v[j] * shrink + add;
		}
		__syncthreads();
	}
	for (int j = 0, d = threadIdx.x; d < g.dim; d += BLOCK, j++) store(y, d, o.v[j] / sum);
	if (threadIdx.x == 0) lse[row] = top + log(sum);
}

// slope_of is the gradient of a score, and in *weight the probability that v gets.
__device__ inline acc slope_of(const Heads& g, const Call* call, const elem* q, const elem* k, const elem* v, const elem* dy, acc lse, acc dot, u64 row, int key, acc* weight) {
	acc p = exp(dot_of(q, k, g.dim) * (acc)g.scale - lse), keep = weight_of(g, call, row, key);
	*weight = p * keep;
	return p * (dot_of(dy, v, g.dim) * keep - dot) * (acc)g.scale;
}

// attention_grad_queries has a block per query and head, as attention has. It leaves y·dy in dots.
KERNEL attention_grad_queries(const elem* q, const elem* k, const elem* v, const elem* y, const elem* dy, const acc* lse, elem* dq, int dq_stride, acc* dots, Heads g, const Call* call) {
	__shared__ acc slopes[BLOCK];
	int t = blockIdx.x, h = blockIdx.y % g.heads, n = blockIdx.y / g.heads, kv = h / (g.heads / g.kv_heads);
	int keys = g.causal && t + 1 < g.keys ? t + 1 : g.keys;
	u64 row = (u64)blockIdx.y * g.queries + t;
	i64 at = (i64)n * g.queries + t;
	q += at * g.q_stride + h * g.dim;
	k += (i64)n * g.keys * g.k_stride + kv * g.dim;
	v += (i64)n * g.keys * g.v_stride + kv * g.dim;
	y += (at * g.heads + h) * g.dim;
	dy += (at * g.heads + h) * g.dim;
	dq += at * dq_stride + h * g.dim;
	acc dot = dot_of(y, dy, g.dim), unused;
	if (threadIdx.x == 0) dots[row] = dot;
	Vector sum = {};
	for (int from = 0; from < keys; from += BLOCK) {
		int key = from + threadIdx.x;
		slopes[threadIdx.x] = key < keys ? slope_of(g, call, q, k + (i64)key * g.k_stride, v + (i64)key * g.v_stride, dy, lse[row], dot, row, key, &unused) : 0;
		__syncthreads();
		for (int j = 0, d = threadIdx.x; d < g.dim; d += BLOCK, j++)
			for (int i = 0; i < BLOCK && from + i < keys; i++) sum.v[j] += slopes[i] * load(k, (i64)(from + i) * g.k_stride + d);
		__syncthreads();
	}
	for (int j = 0, d = threadIdx.x; d < g.dim; d += BLOCK, j++) store(dq, d, sum.v[j]);
}

// attention_grad_keys has a block per key and key head of all samples, and adds up over the group's query heads.
KERNEL attention_grad_keys(const elem* q, const elem* k, const elem* v, const elem* dy, const acc* lse, const acc* dots, elem* dk, int dk_stride, elem* dv, int dv_stride, Heads g, const Call* call) {
	__shared__ acc slopes[BLOCK];
	__shared__ acc weights[BLOCK];
	int key = blockIdx.x, kv = blockIdx.y % g.kv_heads, n = blockIdx.y / g.kv_heads, group = g.heads / g.kv_heads;
	i64 at = (i64)n * g.keys + key;
	k += at * g.k_stride + kv * g.dim;
	v += at * g.v_stride + kv * g.dim;
	dk += at * dk_stride + kv * g.dim;
	dv += at * dv_stride + kv * g.dim;
	q += (i64)n * g.queries * g.q_stride;
	dy += (i64)n * g.queries * g.heads * g.dim;
	Vector sum_k = {}, sum_v = {};
	for (int h = kv * group; h < (kv + 1) * group; h++) {
		const elem *qh = q + h * g.dim, *gh = dy + h * g.dim;
		i64 gh_stride = (i64)g.heads * g.dim;
		u64 rows = ((u64)n * g.heads + h) * g.queries;
		for (int from = g.causal ? key / BLOCK * BLOCK : 0; from < g.queries; from += BLOCK) {
			int t = from + threadIdx.x;
			acc slope = 0, weight = 0;
			if (t < g.queries && (!g.causal || key <= t)) slope = slope_of(g, call, qh + (i64)t * g.q_stride, k, v, gh + t * gh_stride, lse[rows + t], dots[rows + t], rows + t, key, &weight);
			slopes[threadIdx.x] = slope;
			weights[threadIdx.x] = weight;
			__syncthreads();
			for (int j = 0, d = threadIdx.x; d < g.dim; d += BLOCK, j++)
				for (int i = 0; i < BLOCK && from + i < g.queries; i++) {
					sum_k.v[j] += slopes[i] * load(qh, (i64)(from + i) * g.q_stride + d);
					sum_v.v[j] += weights[i] * load(gh, (from + i) * gh_stride + d);
				}
			__syncthreads();
		}
	}
	for (int j = 0, d = threadIdx.x; d < g.dim; d += BLOCK, j++) {
		store(dk, d, sum_k.v[j]);
		store(dv, d, sum_v.v[j]);
	}
}
