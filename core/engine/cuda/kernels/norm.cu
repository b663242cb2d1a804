// Batch, layer and group norm (Ioffe and Szegedy, 2015; Ba, Kiros and Hinton, 2016; Wu and He, 2018).
//
// Images are n·c planes of hw elements. With channels last, hw is 1 and n counts the
// pixels of all images. A block handles `lanes` channels (one, or
// neighbours whose elements are adjacent) and one of gridDim.y shares of their
// elements. Shares are combined in the order of the blocks.

__device__ inline i64 in_channel(u32 i, int c, int hw, u32 ch) { return ((i64)(i / hw) * c + ch) * hw + i % hw; }

// Share is what a thread handles: elements lo to hi of channel ch, step apart.
struct Share {
	u32 ch, lo, hi, from, step, lane, lanes;
	bool idle; // the last block of channels may have threads to spare
};

__device__ inline Share share_of(u32 total, int c, u32 lanes) {
	Share s;
	part_of(total, &s.lo, &s.hi);
	s.lane = threadIdx.x % lanes;
	s.lanes = lanes;
	s.ch = blockIdx.x * lanes + s.lane;
	s.idle = s.ch >= (u32)c;
	s.from = s.lo + threadIdx.x / lanes;
	s.step = BLOCK / lanes;
	if (s.idle) s.from = s.hi;
	return s;
}

// first says that a thread writes its channel's sums.
__device__ inline bool first(const Share& s) { return threadIdx.x < s.lanes && !s.idle; }

// store_lane_sums adds up over the threads of a share, and writes the pair for its channel.
__device__ inline void store_lane_sums(const Share& s, acc sum, acc dot, u32 lanes, double* part) {
	sum = lane_sum(sum, lanes);
	dot = lane_sum(dot, lanes);
	if (!first(s)) return;
	part += 2 * ((i64)s.ch * gridDim.y + blockIdx.y);
	part[0] = sum;
	part[1] = dot;
}

// bn_moments writes each share's number of elements, mean and squared distances from
// it, measured from the share's first element, which is close enough to the mean to
// avoid cancellation.
KERNEL bn_moments(const elem* x, int n, int c, int hw, u32 lanes, double* part) {
	Share s = share_of((u32)n * hw, c, lanes);
	acc off = 0, square = 0, from = !s.idle && s.hi > s.lo ? load(x, in_channel(s.lo, c, hw, s.ch)) : 0;
	for (u32 i = s.from; i < s.hi; i += s.step) {
		acc d = load(x, in_channel(i, c, hw, s.ch)) - from;
		off += d;
		square += d * d;
	}
	off = lane_sum(off, lanes);
	square = lane_sum(square, lanes);
	if (!first(s)) return;
	acc count = (acc)(s.hi - s.lo);
	part += 3 * ((i64)s.ch * gridDim.y + blockIdx.y);
	part[0] = count;
	part[1] = count > 0 ? from + (double)off / count : 0;
	part[2] = count > 0 ? square - (double)off * off / count : 0;
}

// Strip is what a thread handles of n pixels with channels last:
// channels ch to ch+3 of pixels lo to hi, step apart. c is a multiple of 4.
struct Strip {
	u32 ch, lo, hi, from, step, total;
	bool idle; // as in a Share
};

__device__ inline Strip strip_of(u32 n, int c, u32 lanes) {
	Strip s;
	part_of(n, &s.lo, &s.hi);
	s.ch = 4 * (blockIdx.x * lanes + threadIdx.x % lanes);
	s.idle = s.ch >= (u32)c;
	s.from = s.idle ? s.hi : s.lo + threadIdx.x / lanes;
	s.step = BLOCK / lanes;
	s.total = n * c;
	return s;
}

// of_channels are four numbers of channels, 0 where there are none.
__device__ inline four of_channels(const acc* p, const Strip& s) {
	four f = {};
	for (int j = 0; j < 4 && !s.idle; j++) f.v[j] = p[s.ch + j];
	return f;
}

// bn_moments_last is bn_moments over a strip.
KERNEL bn_moments_last(const elem* x, int n, int c, u32 lanes, double* part) {
	Strip s = strip_of(n, c, lanes);
	four from = {}, off = {}, square = {};
	if (!s.idle && s.hi > s.lo) from = load_four(x, s.lo * c + s.ch, s.total);
	UNROLL
	for (u32 i = s.from; i < s.hi; i += s.step) {
		four v = load_four(x, i * c + s.ch, s.total);
		for (int j = 0; j < 4; j++) {
			acc d = v.v[j] - from.v[j];
			off.v[j] += d;
			square.v[j] += d * d;
		}
	}
	acc count = (acc)(s.hi - s.lo);
	for (int j = 0; j < 4; j++) {
		acc o = lane_sum(off.v[j], lanes), q = lane_sum(square.v[j], lanes);
		if (threadIdx.x >= lanes || s.idle) continue;
		double* p = part + 3 * ((i64)(s.ch + j) * gridDim.y + blockIdx.y);
		p[0] = count;
		p[1] = count > 0 ? from.v[j] + (double)o / count : 0;
		p[2] = count > 0 ? q - (double)o * o / count : 0;
	}
}

// Moments are a channel's mean, biased variance and number of elements.
struct Moments {
	double mean, variance, count;
};

// block_moments combines the shares of channel blockIdx.x.
__device__ inline Moments block_moments(const double* part, int shares) {
	const double* p = part + 3 * (i64)blockIdx.x * shares;
	double count = 0, mean = 0, square = 0;
	for (int s = threadIdx.x; s < shares; s += BLOCK) {
		count += p[3 * s];
		mean += p[3 * s] * p[3 * s + 1];
	}
	count = block_sum(count);
	mean = block_sum(mean) / count;
	for (int s = threadIdx.x; s < shares; s += BLOCK) {
		double delta = p[3 * s + 1] - mean;
		square += p[3 * s + 2] + delta * delta * p[3 * s];
	}
	Moments m = {mean, block_sum(square) / count, count};
	return m;
}

// set_affine writes the scale and the shift of a channel; weight and bias may be null.
__device__ inline void set_affine(u32 ch, acc invstd, const void* weight, const void* bias, int type, acc* scale, acc* shift) {
	scale[ch] = weight ? invstd * (acc)load_as(weight, type, ch) : invstd;
	shift[ch] = bias ? (acc)load_as(bias, type, ch) : 0;
}

// Update says where a batch's moments are written. type is that of weight, bias and the running statistics.
struct Update {
	acc *mean, *invstd, *scale, *shift;
	const void *weight, *bias;
	void *running_mean, *running_var;
	i64* batches;
	double eps, momentum;
	int type, spare;
};

// update writes a channel's mean and 1/σ, and moves the running statistics towards the
// batch's: with the variance of the sample, where normalisation uses that of the
// batch. A single element has no variance, so the running variance stays; without
// elements nothing changes.
__device__ inline void update(const Update& u, u32 ch, const Moments& m) {
	u.mean[ch] = (acc)m.mean;
	u.invstd[ch] = (acc)(1 / sqrt(m.variance + u.eps));
	set_affine(ch, u.invstd[ch], u.weight, u.bias, u.type, u.scale, u.shift);
	if (m.count < 1) return;
	store_as(u.running_mean, u.type, ch, u.momentum * m.mean + (1 - u.momentum) * load_as(u.running_mean, u.type, ch));
	if (m.count > 1) store_as(u.running_var, u.type, ch, u.momentum * m.variance * (m.count / (m.count - 1)) + (1 - u.momentum) * load_as(u.running_var, u.type, ch));
	if (ch == 0) u.batches[0]++;
}

// bn_finish has a block per channel, which merges its shares and updates.
KERNEL bn_finish(const double* part, int shares, Update u) {
	Moments m = block_moments(part, shares);
	if (threadIdx.x == 0) update(u, blockIdx.x, m);
}

// bn_merge and bn_update are bn_finish in two, for ranks that exchange in between
// stats: c means, c biased variances, and the number of elements.
KERNEL bn_merge(const double* part, int shares, int c, double* stats) {
	Moments m = block_moments(part, shares);
	if (threadIdx.x != 0) return;
	stats[blockIdx.x] = m.mean;
	stats[c + blockIdx.x] = m.variance;
	if (blockIdx.x == 0) stats[2 * c] = m.count;
}

KERNEL bn_update(const double* stats, int c, Update u) {
	each(ch, c) {
		Moments m = {stats[ch], stats[c + ch], stats[2 * c]};
		update(u, ch, m);
	}
}

// bn_running computes mean, scale and shift from the running statistics.
KERNEL bn_running(const void* running_mean, const void* running_var, int type, int c, double eps, acc* mean, const void* weight, const void* bias, acc* scale, acc* shift) {
	each(ch, c) {
		mean[ch] = (acc)load_as(running_mean, type, ch);
		set_affine(ch, (acc)(1 / sqrt(load_as(running_var, type, ch) + eps)), weight, bias, type, scale, shift);
	}
}

// bn_known computes scale and shift from a batch's 1/σ, as update does.
KERNEL bn_known(const acc* invstd, int c, const void* weight, const void* bias, int type, acc* scale, acc* shift) {
	each(ch, c) set_affine(ch, invstd[ch], weight, bias, type, scale, shift);
}

// channels_of are the channels of elements i to i+3.
struct Channels {
	u32 ch[4];
};

__device__ inline Channels channels_of(u32 i, int c, int hw) {
	Channels r;
	if (hw % 4 == 0)
		r.ch[0] = r.ch[1] = r.ch[2] = r.ch[3] = i / hw % c;
	else
		for (int j = 0; j < 4; j++) r.ch[j] = (i + j) / hw % c;
	return r;
}

// normal is the output of batch norm for one element, plus a residual, with a ReLU if
// asked for.
__device__ inline acc normal(acc x, acc mean, acc scale, acc shift, acc residual, int relu) {
	acc v = (x - mean) * scale + shift + residual;
	return relu && v < 0 ? 0 : v;
}

// bn_apply normalises, adds a residual if there is one, and clips if relu says so.
KERNEL bn_apply(const elem* x, const acc* mean, const acc* scale, const acc* shift, int c, int hw, const elem* residual, int relu, elem* y, u32 n) {
	each_four(i, n) {
		four f = load_four(x, i, n), r = {};
		Channels k = channels_of(i, c, hw);
		if (residual) r = load_four(residual, i, n);
		for (int j = 0; j < 4; j++) {
			u32 ch = k.ch[j];
			f.v[j] = normal(f.v[j], mean[ch], scale[ch], shift[ch], r.v[j], relu);
		}
		store_four(y, i, n, f);
	}
}

// ROUNDS of a strip are read before the first is written, so that their loads are
// under way together though a step may write over what it reads.
#define ROUNDS 4

// bn_apply_last is bn_apply over a strip, whose channels a thread keeps.
KERNEL bn_apply_last(const elem* x, const acc* means, const acc* scales, const acc* shifts, int n, int c, u32 lanes, const elem* residual, int relu, elem* y) {
	Strip s = strip_of(n, c, lanes);
	four mean = of_channels(means, s), scale = of_channels(scales, s), shift = of_channels(shifts, s);
	for (u32 from = s.from; from < s.hi; from += ROUNDS * s.step) {
		four f[ROUNDS], r[ROUNDS] = {};
		UNROLL
		for (u32 k = 0; k < ROUNDS; k++) {
			u32 i = from + k * s.step;
			if (i >= s.hi) continue;
			f[k] = load_four(x, i * c + s.ch, s.total);
			if (residual) r[k] = load_four(residual, i * c + s.ch, s.total);
		}
		UNROLL
		for (u32 k = 0; k < ROUNDS; k++) {
			u32 i = from + k * s.step;
			if (i >= s.hi) continue;
			for (int j = 0; j < 4; j++) f[k].v[j] = normal(f[k].v[j], mean.v[j], scale.v[j], shift.v[j], r[k].v[j], relu);
			store_four(y, i * c + s.ch, s.total, f[k]);
		}
	}
}

// bn_grad_sums writes each share's Σdy and Σdy·(x−mean). With a gate, dy counts
// only where that is positive: it has come through a ReLU. What counts is left in
// open, a byte for each element, which is less to reread than the gate.
KERNEL bn_grad_sums(const elem* x, const elem* gate, const elem* dy, const acc* mean, int n, int c, int hw, u32 lanes, double* part, u8* open) {
	Share s = share_of((u32)n * hw, c, lanes);
	acc sum = 0, dot = 0, mu = s.idle ? 0 : mean[s.ch];
	for (u32 i = s.from; i < s.hi; i += s.step) {
		i64 at = in_channel(i, c, hw, s.ch);
		acc g = load(dy, at);
		if (gate) {
			open[at] = !(load(gate, at) <= 0);
			if (!open[at]) g = 0;
		}
		sum += g;
		dot += g * (load(x, at) - mu);
	}
	store_lane_sums(s, sum, dot, lanes, part);
}

// open_of has a bit for each of four elements that come out of a ReLU.
__device__ inline u8 open_of(const four& y) {
	u8 bits = 0;
	for (int j = 0; j < 4; j++) bits |= (u8)(!(y.v[j] <= 0)) << j;
	return bits;
}

// pass is the part of dy that passes the ReLU.
__device__ inline void pass(four* dy, u8 open) {
	for (int j = 0; j < 4; j++)
		if (!(open >> j & 1)) dy->v[j] = 0;
}

// bn_grad_sums_last is bn_grad_sums over a strip. open has a byte for four elements.
KERNEL bn_grad_sums_last(const elem* x, const elem* gate, const elem* dy, const acc* mean, int n, int c, u32 lanes, double* part, u8* open) {
	Strip s = strip_of(n, c, lanes);
	four mu = of_channels(mean, s), sum = {}, dot = {};
	UNROLL
	for (u32 i = s.from; i < s.hi; i += s.step) {
		u32 at = i * c + s.ch;
		four v = load_four(x, at, s.total), g = load_four(dy, at, s.total);
		if (gate) {
			u8 bits = open_of(load_four(gate, at, s.total));
			open[at / 4] = bits;
			pass(&g, bits);
		}
		for (int j = 0; j < 4; j++) {
			sum.v[j] += g.v[j];
			dot.v[j] += g.v[j] * (v.v[j] - mu.v[j]);
		}
	}
	for (int j = 0; j < 4; j++) {
		acc total = lane_sum(sum.v[j], lanes), d = lane_sum(dot.v[j], lanes);
		if (threadIdx.x >= lanes || s.idle) continue;
		double* p = part + 2 * ((i64)(s.ch + j) * gridDim.y + blockIdx.y);
		p[0] = total;
		p[1] = d;
	}
}

// set_slopes computes the coefficients of a channel's dx from Σdy and Σdy·(x−mean): dx
// = (dy − meanDy − (x−mean)·slope)·scale, of which slopes has c each.
__device__ inline void set_slopes(u32 ch, int c, double sum, double dot, double count, const acc* invstd, const void* weight, int type, acc* slopes) {
	double inv = invstd[ch];
	slopes[ch] = (acc)(sum / count);
	slopes[c + ch] = (acc)(dot / count * inv * inv);
	slopes[2 * c + ch] = weight ? invstd[ch] * (acc)load_as(weight, type, ch) : invstd[ch];
}

// bn_grad_merge has a block per channel, which adds up its shares; it writes the
// gradients of weight and bias, each of which may be null, and either slopes, or for ranks
// that add up theirs first, sums: c Σdy, c Σdy·(x−mean), and count.
KERNEL bn_grad_merge(const double* part, int shares, int c, double count, const acc* invstd, void* dweight, void* dbias, int type, int add_weight, int add_bias,
	const void* weight, int weight_type, acc* slopes, double* sums) {
	int ch = blockIdx.x;
	double sum, dot;
	block_sum_pairs(part + 2 * (i64)ch * shares, shares, &sum, &dot);
	if (threadIdx.x != 0) return;
	if (dweight) store_grad(dweight, type, ch, dot * invstd[ch], add_weight);
	if (dbias) store_grad(dbias, type, ch, sum, add_bias);
	if (slopes) set_slopes(ch, c, sum, dot, count, invstd, weight, weight_type, slopes);
	if (!sums) return;
	sums[ch] = sum;
	sums[c + ch] = dot;
	if (ch == 0) sums[2 * c] = count;
}

// bn_slopes computes slopes from sums.
KERNEL bn_slopes(const double* sums, const acc* invstd, const void* weight, int type, int c, acc* slopes) {
	each(ch, c) set_slopes(ch, c, sums[ch], sums[c + ch], sums[2 * c], invstd, weight, type, slopes);
}

// bn_grad_input writes dx, and of a dy that passes a ReLU where open says so,
// if asked for, what passed it. dx may be dy.
KERNEL bn_grad_input(const elem* x, const u8* open, const elem* dy, const acc* mean, const acc* slopes, int c, int hw, elem* dx, elem* passed, u32 n) {
	const acc *mean_dy = slopes, *slope = slopes + c, *scale = slopes + 2 * c;
	each_four(i, n) {
		four f = load_four(x, i, n), g = load_four(dy, i, n);
		Channels k = channels_of(i, c, hw);
		if (open)
			for (u32 j = 0; j < 4 && i + j < n; j++)
				if (!open[i + j]) g.v[j] = 0;
		if (passed) store_four(passed, i, n, g);
		for (int j = 0; j < 4; j++) {
			u32 ch = k.ch[j];
			f.v[j] = (g.v[j] - mean_dy[ch] - (f.v[j] - mean[ch]) * slope[ch]) * scale[ch];
		}
		store_four(dx, i, n, f);
	}
}

// bn_grad_input_last is bn_grad_input over a strip.
KERNEL bn_grad_input_last(const elem* x, const u8* open, const elem* dy, const acc* mean, const acc* slopes, int n, int c, u32 lanes, elem* dx, elem* passed) {
	Strip s = strip_of(n, c, lanes);
	four mu = of_channels(mean, s), mean_dy = of_channels(slopes, s), slope = of_channels(slopes + c, s), scale = of_channels(slopes + 2 * c, s);
	for (u32 from = s.from; from < s.hi; from += ROUNDS * s.step) {
		four f[ROUNDS], g[ROUNDS];
		UNROLL
		for (u32 k = 0; k < ROUNDS; k++) {
			u32 i = from + k * s.step, at = i * c + s.ch;
			if (i >= s.hi) continue;
			f[k] = load_four(x, at, s.total);
			g[k] = load_four(dy, at, s.total);
			if (open) pass(&g[k], open[at / 4]);
		}
		UNROLL
		for (u32 k = 0; k < ROUNDS; k++) {
			u32 i = from + k * s.step, at = i * c + s.ch;
			if (i >= s.hi) continue;
			if (passed) store_four(passed, at, s.total, g[k]);
			for (int j = 0; j < 4; j++) f[k].v[j] = (g[k].v[j] - mean_dy.v[j] - (f[k].v[j] - mu.v[j]) * slope.v[j]) * scale.v[j];
			store_four(dx, at, s.total, f[k]);
		}
	}
}

// channel_sums writes each share's sum of a channel, and sum_parts adds them up.
KERNEL channel_sums(const elem* x, int n, int c, int hw, u32 lanes, double* part) {
	Share s = share_of((u32)n * hw, c, lanes);
	acc sum = 0;
	for (u32 i = s.from; i < s.hi; i += s.step) sum += load(x, in_channel(i, c, hw, s.ch));
	sum = lane_sum(sum, lanes);
	if (first(s)) part[(i64)s.ch * gridDim.y + blockIdx.y] = sum;
}

KERNEL sum_parts(const double* part, int shares, void* y, int type, int add) {
	double sum = 0;
	for (int s = threadIdx.x; s < shares; s += BLOCK) sum += part[(i64)blockIdx.x * shares + s];
	sum = block_sum(sum);
	if (threadIdx.x == 0) store_grad(y, type, blockIdx.x, sum, add);
}

// parameter is the index of weight and bias for element j of a row. A layer norm has one per
// column: groups and hw are 1. In a group norm a row is one of a sample's groups, with one
// parameter for the hw elements of a channel.
__device__ inline u32 parameter(u32 j, int cols, int groups, int hw) { return blockIdx.x % groups * (cols / hw) + j / hw; }

// layer_norm has a block per row.
KERNEL layer_norm(const elem* x, const void* weight, const void* bias, int type, int cols, int groups, int hw, double eps, elem* y, acc* mean, acc* invstd) {
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
		u32 p = parameter(j, cols, groups, hw);
		if (weight) v *= (acc)load_as(weight, type, p);
		if (bias) v += (acc)load_as(bias, type, p);
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

// group_norm_grad_params has a block per channel.
KERNEL group_norm_grad_params(const elem* x, const elem* dy, const acc* mean, const acc* invstd, int n, int c, int hw, int groups, void* dweight, void* dbias, int type, int add_weight, int add_bias) {
	int ch = blockIdx.x, group = ch / (c / groups);
	acc w = 0, b = 0;
	for (u32 i = threadIdx.x; i < (u32)n * hw; i += BLOCK) {
		i64 at = in_channel(i, c, hw, ch), row = (i64)(i / hw) * groups + group;
		acc g = load(dy, at);
		w += g * (load(x, at) - mean[row]) * invstd[row];
		b += g;
	}
	w = block_sum(w);
	b = block_sum(b);
	if (threadIdx.x != 0) return;
	if (dweight) store_grad(dweight, type, ch, w, add_weight);
	if (dbias) store_grad(dbias, type, ch, b, add_bias);
}

KERNEL layer_norm_grad_input(const elem* x, const elem* dy, const acc* mean, const acc* invstd, const void* weight, int type, int cols, int groups, int hw, elem* dx) {
	i64 row = (i64)blockIdx.x * cols;
	acc mu = mean[blockIdx.x], inv = invstd[blockIdx.x], sum = 0, dot = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc g = load(dy, row + j) * (weight ? (acc)load_as(weight, type, parameter(j, cols, groups, hw)) : 1);
		sum += g;
		dot += g * (load(x, row + j) - mu);
	}
	acc mean_dy = block_sum(sum) / cols, slope = block_sum(dot) / cols * inv * inv;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc g = load(dy, row + j) * (weight ? (acc)load_as(weight, type, parameter(j, cols, groups, hw)) : 1);
		store(dx, row + j, (g - mean_dy - (load(x, row + j) - mu) * slope) * inv);
	}
}
