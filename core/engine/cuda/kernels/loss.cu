// Losses and embeddings: the kernels that read indices of the batch.

// seen counts the indices of a thread's share of n that are not ignored. bad becomes
// the position of the first one outside [0, limit), or n.
__device__ inline int seen(const int* v, int n, int limit, int ignore, int* bad) {
	int count = 0;
	*bad = n;
	for (int i = threadIdx.x; i < n; i += BLOCK) {
		if (v[i] == ignore) continue;
		count++;
		if ((v[i] < 0 || v[i] >= limit) && i < *bad) *bad = i;
	}
	return count;
}

// blame records the first bad index of a block's threads, unless a fault is already
// recorded.
__device__ inline void blame(int bad, const int* v, int n, int limit, int what, Fault* fault) {
	__shared__ int first[BLOCK];
	first[threadIdx.x] = bad;
	__syncthreads();
	if (threadIdx.x != 0) return;
	for (int t = 1; t < BLOCK; t++)
		if (first[t] < bad) bad = first[t];
	if (bad < n && fault->limit == 0) {
		fault->what = what;
		fault->at = bad;
		fault->value = v[bad];
		fault->limit = limit;
	}
}

// check_indices has one block.
KERNEL check_indices(const int* v, int n, int limit, int ignore, int what, Fault* fault, double* counted) {
	int bad, count = seen(v, n, limit, ignore, &bad);
	count = block_sum(count);
	if (counted && threadIdx.x == 0) counted[0] = count;
	blame(bad, v, n, limit, what, fault);
}

__device__ inline bool larger(acc v, int at, acc w, int than) {
	bool nan = v != v, other = w != w;
	if (nan || other) return nan && (!other || at < than);
	return v > w || (v == w && at < than);
}

// argmax is the place of the largest of a row's n elements, the first of equals or of NaNs, and *peak the element.
__device__ inline int argmax(const elem* x, i64 row, int n, acc* peak) {
	__shared__ acc peaks[BLOCK];
	__shared__ int places[BLOCK];
	u32 t = threadIdx.x;
	acc best = least();
	int at = n;
	for (u32 j = t; j < (u32)n; j += BLOCK) {
		acc v = load(x, row + j);
		if (at == n || larger(v, j, best, at)) {
			best = v;
			at = j;
		}
	}
	peaks[t] = best;
	places[t] = at;
	__syncthreads();
	for (u32 s = BLOCK / 2; s > 0; s /= 2) {
		if (t < s && places[t + s] < n && (places[t] == n || larger(peaks[t + s], places[t + s], peaks[t], places[t]))) {
			peaks[t] = peaks[t + s];
			places[t] = places[t + s];
		}
		__syncthreads();
	}
	*peak = peaks[0];
	at = places[0];
	__syncthreads(); // before the next call
	return at;
}

// cross_entropy has a block per row: the row's loss, and whether its largest logit is
// the target's. dx may be null, and may be x. If fault is given, every block counts
// the targets itself and the first block checks them; otherwise check_indices has done
// both. The targets of x start at that of row first.
KERNEL cross_entropy(const elem* x, const int* target, int first, int n, int classes, int ignore, int what, Fault* fault, const Call* call, double* counted, elem* dx, double* rows) {
	u32 t = threadIdx.x;
	i64 row = (i64)blockIdx.x * classes;
	int want = target[first + blockIdx.x];
	double* mine = rows + 2 * (i64)blockIdx.x;
	double all;
	if (fault) {
		int bad, count = seen(target, n, classes, ignore, &bad);
		all = block_sum(count);
		if (blockIdx.x == 0) {
			if (t == 0) counted[0] = all;
			blame(bad, target, n, classes, what, fault);
		}
	} else {
		all = counted[0];
	}
	if (want == ignore || want < 0 || want >= classes) {
		if (dx)
			for (u32 j = t; j < (u32)classes; j += BLOCK) store(dx, row + j, 0);
		if (t == 0) mine[0] = mine[1] = 0;
		return;
	}
	acc peak, sum = 0;
	int at = argmax(x, row, classes, &peak);
	for (u32 j = t; j < (u32)classes; j += BLOCK) sum += exp(load(x, row + j) - peak);
	sum = block_sum(sum);
	if (t == 0) {
		mine[0] = log((double)sum) - ((double)load(x, row + want) - peak);
		mine[1] = at == want;
	}
	if (!dx) return;
	__syncthreads(); // the target's logit is read: dx may go over it
	acc scale = (acc)(call->grad_scale / all);
	for (u32 j = t; j < (u32)classes; j += BLOCK) store(dx, row + j, (exp(load(x, row + j) - peak) / sum - (j == (u32)want ? 1 : 0)) * scale);
}

// weigh_targets has one block: behind the number of targets that count it writes the sum of
// their weights, which is what losses are divided by.
KERNEL weigh_targets(const int* target, const double* weights, int n, int classes, int ignore, double* counted) {
	double sum = 0;
	for (int i = threadIdx.x; i < n; i += BLOCK) {
		int c = target[i];
		if (c != ignore && c >= 0 && c < classes) sum += weights ? weights[c] : 1;
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0) counted[1] = sum;
}

// count_rows is for targets that all count alike.
KERNEL count_rows(int rows, double* counted) {
	if (threadIdx.x == 0) counted[0] = counted[1] = rows;
}

// criterion is cross_entropy with label smoothing and weights of classes, which may be null.
// Targets are indices, or if those are null the probabilities soft [rows, classes].
// counted has the rows that count and what their losses are divided by.
KERNEL criterion(const elem* x, const int* target, const elem* soft, int first, int classes, int ignore, double smoothing, const double* weights, const Call* call, const double* counted, elem* dx, double* rows) {
	u32 t = threadIdx.x;
	i64 row = (i64)blockIdx.x * classes;
	double* mine = rows + 2 * (i64)blockIdx.x;
	acc peak;
	int at, want;
	if (soft) {
		want = argmax(soft, row, classes, &peak);
	} else {
		want = target[first + blockIdx.x];
	}
	if (want == ignore || want < 0 || want >= classes) {
		if (dx)
			for (u32 j = t; j < (u32)classes; j += BLOCK) store(dx, row + j, 0);
		if (t == 0) mine[0] = mine[1] = 0;
		return;
	}
	at = argmax(x, row, classes, &peak);
#define WANTED(j) (((1 - smoothing) * (soft ? (double)load(soft, row + (j)) : (double)((int)(j) == want)) + smoothing / classes) * (weights ? weights[j] : 1.0))
	double total = 0, product = 0;
	acc sum = 0;
	for (u32 j = t; j < (u32)classes; j += BLOCK) {
		double wanted = WANTED(j);
		total += wanted;
		product += wanted * (load(x, row + j) - peak);
		sum += exp(load(x, row + j) - peak);
	}
	total = block_sum(total);
	product = block_sum(product);
	sum = block_sum(sum);
	double all = counted[1] > 0 ? counted[1] : 1;
	if (t == 0) {
		mine[0] = (total * log((double)sum) - product) * (counted[0] / all);
		mine[1] = at == want;
	}
	if (!dx) return;
	double scale = call->grad_scale / all;
	for (u32 j = t; j < (u32)classes; j += BLOCK) store(dx, row + j, (acc)((exp(load(x, row + j) - peak) / sum * total - WANTED(j)) * scale));
}

// report has one block: the sums of the rows' losses and hits.
// An earlier step may have reported rows before these.
KERNEL report(const double* rows, int n, const double* counted, double* stats, int more) {
	double loss, correct;
	block_sum_pairs(rows, n, &loss, &correct);
	if (threadIdx.x != 0) return;
	stats[0] = more ? stats[0] + loss : loss;
	stats[1] = counted[0];
	stats[2] = more ? stats[2] + correct : correct;
}

// The losses of elements, by number.
enum { MSE, L1, HUBER, BCE };

// element_loss is the loss of v against target and *slope its derivative.
__device__ inline double element_loss(int kind, double delta, acc v, acc target, acc* slope) {
	acc d = v - target;
	if (kind == MSE) {
		*slope = 2 * d;
		return (double)d * d;
	}
	if (kind == BCE) {
		double a = v < 0 ? -(double)v : (double)v, e = exp(-a);
		*slope = (acc)((v < 0 ? e / (1 + e) : 1 / (1 + e)) - target);
		return (v < 0 ? 0 : (double)v) - (double)v * target + log1p(e);
	}
	double a = d < 0 ? -(double)d : (double)d, limit = kind == L1 ? 0 : delta;
	*slope = d;
	if (a <= limit) return a * a / 2;
	*slope = (acc)(kind == L1 ? 1 : delta);
	if (d < 0) *slope = -*slope;
	if (d == 0 || d != d) *slope = d;
	return kind == L1 ? a : delta * (a - delta / 2);
}

// losses_of_elements writes a block's share of Σloss(x, target) as a row of report's. dx may be null, and may be x.
KERNEL losses_of_elements(const elem* x, const elem* target, int kind, double delta, const Call* call, elem* dx, double* rows, double* counted, u32 n) {
	acc scale = (acc)(call->grad_scale / n);
	double sum = 0;
	each(i, n) {
		acc slope;
		sum += element_loss(kind, delta, load(x, i), load(target, i), &slope);
		if (dx) store(dx, i, slope * scale);
	}
	sum = block_sum(sum);
	if (threadIdx.x != 0) return;
	rows[2 * blockIdx.x] = sum;
	rows[2 * blockIdx.x + 1] = 0;
	if (blockIdx.x == 0) counted[0] = n;
}

KERNEL embedding(const int* index, const elem* table, elem* y, int entries, int dim, u32 n) {
	each(i, n) {
		int e = index[i / dim];
		y[i] = e >= 0 && e < entries ? table[(i64)e * dim + i % dim] : 0;
	}
}

// embedding_grad has a block per entry, which looks for its index BLOCK at a time.
KERNEL embedding_grad(const int* index, const elem* dy, int n, int dim, elem* dtable, int add) {
	__shared__ int some[BLOCK];
	int e = blockIdx.x;
	for (int j0 = 0; j0 < dim; j0 += BLOCK) {
		int j = j0 + threadIdx.x;
		acc sum = 0;
		for (int i0 = 0; i0 < n; i0 += BLOCK) {
			__syncthreads();
			some[threadIdx.x] = i0 + (int)threadIdx.x < n ? index[i0 + threadIdx.x] : -1;
			__syncthreads();
			for (int i = 0; i < BLOCK; i++)
				if (some[i] == e && j < dim) sum += load(dy, (i64)(i0 + i) * dim + j);
		}
		if (j < dim) {
			i64 at = (i64)e * dim + j;
			store(dtable, at, add ? rounded(sum) + load(dtable, at) : sum);
		}
	}
}
