// Batch and layer norm (Ioffe and Szegedy, 2015; Ba, Kiros and Hinton, 2016).
// A channel's statistics are taken by gridDim.y blocks, each over its share of
// the n·hw elements, and put together in the order of the blocks.

__device__ inline i64 in_channel(u32 i, int c, int hw, u32 ch) { return ((i64)(i / hw) * c + ch) * hw + i % hw; }

// bn_moments writes each share's number of elements, mean and squared distances
// from it. The second pass measures from a mean that is nearly right, and so corrects it.
KERNEL bn_moments(const elem* x, int n, int c, int hw, double* part) {
	u32 lo, hi, ch = blockIdx.x;
	part_of((u32)n * hw, &lo, &hi);
	acc sum = 0;
	for (u32 i = lo + threadIdx.x; i < hi; i += BLOCK) sum += load(x, in_channel(i, c, hw, ch));
	acc count = (acc)(hi - lo), mean = hi > lo ? block_sum(sum) / count : 0;
	acc off = 0, square = 0;
	for (u32 i = lo + threadIdx.x; i < hi; i += BLOCK) {
		acc d = load(x, in_channel(i, c, hw, ch)) - mean;
		off += d;
		square += d * d;
	}
	off = block_sum(off);
	square = block_sum(square);
	if (threadIdx.x != 0) return;
	part += 3 * ((i64)ch * gridDim.y + blockIdx.y);
	part[0] = count;
	part[1] = hi > lo ? mean + (double)off / count : 0;
	part[2] = hi > lo ? square - (double)off * off / count : 0;
}

// bn_merge adds up the shares of a channel (Chan, Golub and LeVeque, 1979) to
// stats: c means, c biased variances, and the number of elements.
KERNEL bn_merge(const double* part, int shares, int c, double* stats) {
	each(ch, c) {
		double count = 0, mean = 0, square = 0;
		for (int s = 0; s < shares; s++) {
			const double* p = part + 3 * ((i64)ch * shares + s);
			if (p[0] < 1) continue;
			double delta = p[1] - mean, total = count + p[0];
			square += p[2] + delta * delta * count * p[0] / total;
			mean += delta * p[0] / total;
			count = total;
		}
		stats[ch] = mean;
		stats[c + ch] = square / count;
		if (ch == 0) stats[2 * c] = count;
	}
}

// bn_update writes mean and 1/σ, and moves the running statistics towards the
// batch's: with the variance of the sample, where normalisation uses that of the batch.
KERNEL bn_update(const double* stats, int c, double eps, double momentum, acc* mean, acc* invstd,
	void* running_mean, void* running_var, int type, i64* batches) {
	each(ch, c) {
		double mu = stats[ch], var = stats[c + ch], count = stats[2 * c];
		mean[ch] = (acc)mu;
		invstd[ch] = (acc)(1 / sqrt(var + eps));
		store_as(running_mean, type, ch, momentum * mu + (1 - momentum) * load_as(running_mean, type, ch));
		store_as(running_var, type, ch, momentum * var * (count / (count - 1)) + (1 - momentum) * load_as(running_var, type, ch));
		if (ch == 0) batches[0]++;
	}
}

// bn_running makes mean and 1/σ of the running statistics.
KERNEL bn_running(const void* running_mean, const void* running_var, int type, int c, double eps, acc* mean, acc* invstd) {
	each(ch, c) {
		mean[ch] = (acc)load_as(running_mean, type, ch);
		invstd[ch] = (acc)(1 / sqrt(load_as(running_var, type, ch) + eps));
	}
}

// affine is what a channel is multiplied with and what is added; weight and bias may be null.
__device__ inline void affine(const acc* invstd, const void* weight, const void* bias, int type, u32 ch, acc* scale, acc* shift) {
	*scale = weight ? invstd[ch] * (acc)load_as(weight, type, ch) : invstd[ch];
	*shift = bias ? (acc)load_as(bias, type, ch) : 0;
}

KERNEL bn_apply(const elem* x, const acc* mean, const acc* invstd, const void* weight, const void* bias, int type, int c, int hw, elem* y, u32 n) {
	each(i, n) {
		u32 ch = i / hw % c;
		acc scale, shift;
		affine(invstd, weight, bias, type, ch, &scale, &shift);
		store(y, i, (load(x, i) - mean[ch]) * scale + shift);
	}
}

// bn_grad_sums writes each share's Σdy and Σdy·(x−mean).
KERNEL bn_grad_sums(const elem* x, const elem* dy, const acc* mean, int n, int c, int hw, double* part) {
	u32 lo, hi, ch = blockIdx.x;
	part_of((u32)n * hw, &lo, &hi);
	acc sum = 0, dot = 0, mu = mean[ch];
	for (u32 i = lo + threadIdx.x; i < hi; i += BLOCK) {
		i64 at = in_channel(i, c, hw, ch);
		acc g = load(dy, at);
		sum += g;
		dot += g * (load(x, at) - mu);
	}
	sum = block_sum(sum);
	dot = block_sum(dot);
	if (threadIdx.x != 0) return;
	part += 2 * ((i64)ch * gridDim.y + blockIdx.y);
	part[0] = sum;
	part[1] = dot;
}

// bn_grad_merge adds up the shares to sums: c Σdy, c Σdy·(x−mean), and count;
// and writes the gradients of weight and bias, each of which may be null.
KERNEL bn_grad_merge(const double* part, int shares, int c, double count, const acc* invstd, double* sums, void* dweight, void* dbias, int type, int add_weight, int add_bias) {
	each(ch, c) {
		double sum = 0, dot = 0;
		for (int s = 0; s < shares; s++) {
			sum += part[2 * ((i64)ch * shares + s)];
			dot += part[2 * ((i64)ch * shares + s) + 1];
		}
		sums[ch] = sum;
		sums[c + ch] = dot;
		if (ch == 0) sums[2 * c] = count;
		if (dweight) store_grad(dweight, type, ch, dot * invstd[ch], add_weight);
		if (dbias) store_grad(dbias, type, ch, sum, add_bias);
	}
}

// input_slope is what a channel's dx is made with: dx = (dy − meanDy − (x−mean)·slope)·scale.
__device__ inline void input_slope(const double* sums, const acc* invstd, const void* weight, int type, int c, u32 ch, acc* mean_dy, acc* slope, acc* scale) {
	double count = sums[2 * c], inv = invstd[ch];
	*mean_dy = (acc)(sums[ch] / count);
	*slope = (acc)(sums[c + ch] / count * inv * inv);
	*scale = weight ? invstd[ch] * (acc)load_as(weight, type, ch) : invstd[ch];
}

KERNEL bn_grad_input(const elem* x, const elem* dy, const acc* mean, const acc* invstd, const void* weight, int type, const double* sums, int c, int hw, elem* dx, u32 n) {
	each(i, n) {
		u32 ch = i / hw % c;
		acc mean_dy, slope, scale;
		input_slope(sums, invstd, weight, type, c, ch, &mean_dy, &slope, &scale);
		store(dx, i, (load(dy, i) - mean_dy - (load(x, i) - mean[ch]) * slope) * scale);
	}
}

// channel_sums writes each share's sum of a channel, and sum_parts puts them together.
KERNEL channel_sums(const elem* x, int n, int c, int hw, double* part) {
	u32 lo, hi, ch = blockIdx.x;
	part_of((u32)n * hw, &lo, &hi);
	acc sum = 0;
	for (u32 i = lo + threadIdx.x; i < hi; i += BLOCK) sum += load(x, in_channel(i, c, hw, ch));
	sum = block_sum(sum);
	if (threadIdx.x == 0) part[(i64)ch * gridDim.y + blockIdx.y] = sum;
}

KERNEL sum_parts(const double* part, int shares, int c, void* y, int type, int add) {
	each(ch, c) {
		double sum = 0;
		for (int s = 0; s < shares; s++) sum += part[(i64)ch * shares + s];
		store_grad(y, type, ch, sum, add);
	}
}

// layer_norm has a block per row.
KERNEL layer_norm(const elem* x, const void* weight, const void* bias, int type, int cols, double eps, elem* y, acc* mean, acc* invstd) {
	x += (i64)blockIdx.x * cols;
	y += (i64)blockIdx.x * cols;
	acc sum = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) sum += load(x, j);
	acc mu = block_sum(sum) / cols;
	acc square = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc d = load(x, j) - mu;
		square += d * d;
	}
	acc inv = (acc)(1 / sqrt((double)block_sum(square) / cols + eps));
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc v = (load(x, j) - mu) * inv;
		if (weight) v *= (acc)load_as(weight, type, j);
		if (bias) v += (acc)load_as(bias, type, j);
		store(y, j, v);
	}
	if (threadIdx.x == 0) {
		mean[blockIdx.x] = mu;
		invstd[blockIdx.x] = inv;
	}
}

KERNEL layer_norm_grad_params(const elem* x, const elem* dy, const acc* mean, const acc* invstd, int rows, int cols, void* dweight, void* dbias, int type, int add_weight, int add_bias) {
	each(j, cols) {
		acc w = 0, b = 0;
		for (int r = 0; r < rows; r++) {
			acc g = load(dy, (i64)r * cols + j);
			w += g * (load(x, (i64)r * cols + j) - mean[r]) * invstd[r];
			b += g;
		}
		if (dweight) store_grad(dweight, type, j, w, add_weight);
		if (dbias) store_grad(dbias, type, j, b, add_bias);
	}
}

KERNEL layer_norm_grad_input(const elem* x, const elem* dy, const acc* mean, const acc* invstd, const void* weight, int type, int cols, elem* dx) {
	i64 row = (i64)blockIdx.x * cols;
	acc mu = mean[blockIdx.x], inv = invstd[blockIdx.x], sum = 0, dot = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc g = load(dy, row + j) * (weight ? (acc)load_as(weight, type, j) : 1);
		sum += g;
		dot += g * (load(x, row + j) - mu);
	}
	acc mean_dy = block_sum(sum) / cols, slope = block_sum(dot) / cols * inv * inv;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc g = load(dy, row + j) * (weight ? (acc)load_as(weight, type, j) : 1);
		store(dx, row + j, (g - mean_dy - (load(x, row + j) - mu) * slope) * inv);
	}
}
