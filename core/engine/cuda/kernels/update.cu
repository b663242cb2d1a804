// What an optimizer does to all parameters at once: a block has one part of one slot.

// Slot is a parameter; value is weight unless it is a half one with a master copy.
// copy is where a float32 value is rounded to the type that steps compute with; null where none does.
// average is the weight's moving average, or null; aside has the size of a half value with an average.
struct Slot {
	void *value, *weight, *grad, *state[3], *copy, *average, *aside;
	int value_type, weight_type, grad_type, state_type;
	u32 n;
	int copy_type;
	u32 first_part, parts;
	int average_type, spare;
};

struct Part {
	u32 slot, from, to, spare;
};

// Numbers are those of one step: common ones, or where own is given a slot's own.
struct Numbers {
	double scale, lr, momentum, keep, decay, shrink, w1, w2, b1, b2, step_size, root_scale, eps, trust;
	int idle, first;
};

KERNEL scale(elem* x, double f, u32 n) {
	each(i, n) store(x, i, load(x, i) * (acc)f);
}

KERNEL square_sums(const Slot* slots, const Part* parts, double* sums) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	double sum = 0;
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		double g = load_as(s->grad, s->grad_type, i);
		sum += g * g;
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__device__ inline void put(const Slot* s, u32 i, acc w) {
	store_as(s->weight, s->weight_type, i, w);
	if (s->value != s->weight) store_as(s->value, s->value_type, i, w);
	if (s->copy) store_as(s->copy, s->copy_type, i, (float)w);
}

// square_pairs writes the sums of squares of each part's weights and gradients.
KERNEL square_pairs(const Slot* slots, const Part* parts, double* pairs) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	double weights = 0, grads = 0;
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		double w = load_as(s->weight, s->weight_type, i), g = load_as(s->grad, s->grad_type, i);
		weights += w * w;
		grads += g * g;
	}
	weights = block_sum(weights);
	grads = block_sum(grads);
	if (threadIdx.x == 0) pairs[2 * blockIdx.x] = weights, pairs[2 * blockIdx.x + 1] = grads;
}

// trust_ratios is the factor of LARS for the learning rate of each slot (trust in core/engine/optim/lars.go),
// from the sums of its parts. A block has a slot.
KERNEL trust_ratios(const Slot* slots, const double* pairs, Numbers common, const Numbers* own, double* ratios) {
	const Slot* s = &slots[blockIdx.x];
	const Numbers k = own ? own[blockIdx.x] : common;
	double w, g;
	block_sum_pairs(pairs + 2 * s->first_part, s->parts, &w, &g);
	if (threadIdx.x != 0) return;
	w = sqrt(w);
	g = sqrt(g) * fabs(k.scale);
	ratios[blockIdx.x] = w == 0 || g == 0 ? 1 : k.trust * w / (g + k.decay * w + k.eps);
}

// sgd_update is PyTorch's SGD (torch/optim/sgd.py), and with ratios LARS.
KERNEL sgd_update(const Slot* slots, const Part* parts, Numbers common, const Numbers* own, int nesterov, int maximize, const double* ratios) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	const Numbers k = own ? own[p.slot] : common;
	if (k.idle) return;
	double ratio = ratios ? ratios[p.slot] : 1;
	acc scale = k.scale * ratio, lr = k.lr, momentum = k.momentum, keep = k.keep, decay = k.decay * ratio;
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		acc w = load_as(s->weight, s->weight_type, i), d = (acc)load_as(s->grad, s->grad_type, i) * scale;
		if (maximize) d = -d;
		d += decay * w;
		if (s->state[0]) {
			acc b = d;
			if (!k.first) b = momentum * (acc)load_as(s->state[0], s->state_type, i) + keep * d;
			store_as(s->state[0], s->state_type, i, b);
			d = nesterov ? d + momentum * b : b;
		}
		put(s, i, w - lr * d);
	}
}

// adam_update is PyTorch's Adam and AdamW (torch/optim/adam.py, adamw.py).
KERNEL adam_update(const Slot* slots, const Part* parts, Numbers common, const Numbers* own, int maximize) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	const Numbers k = own ? own[p.slot] : common;
	if (k.idle) return;
	acc scale = k.scale, decay = k.decay, shrink = k.shrink, w1 = k.w1, w2 = k.w2, b1 = k.b1, b2 = k.b2;
	acc step_size = k.step_size, root_scale = k.root_scale, eps = k.eps;
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		acc w = load_as(s->weight, s->weight_type, i), d = (acc)load_as(s->grad, s->grad_type, i) * scale;
		acc m = load_as(s->state[0], s->state_type, i), v = load_as(s->state[1], s->state_type, i);
		if (maximize) d = -d;
		w *= shrink;
		d += decay * w;
		m = w1 < (acc)0.5 ? m + w1 * (d - m) : d - (d - m) * b1; // torch.lerp starts from the nearer end
		v = b2 * v + w2 * d * d;
		store_as(s->state[0], s->state_type, i, m);
		store_as(s->state[1], s->state_type, i, v);
		if (s->state[2]) {
			acc most = load_as(s->state[2], s->state_type, i);
			if (v > most || v != v) most = v;
			store_as(s->state[2], s->state_type, i, most);
			v = most;
		}
		put(s, i, w - step_size * m / (sqrt(v) / root_scale + eps));
	}
}

// rmsprop_update is PyTorch's RMSprop (torch/optim/rmsprop.py). State is the mean of squares, with
// momentum the buffer, and with centered the mean of gradients.
KERNEL rmsprop_update(const Slot* slots, const Part* parts, Numbers common, const Numbers* own, int maximize) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	const Numbers k = own ? own[p.slot] : common;
	if (k.idle) return;
	acc scale = k.scale, lr = k.lr, momentum = k.momentum, decay = k.decay, eps = k.eps;
	acc w1 = k.w1, w2 = k.w2, b1 = k.b1, b2 = k.b2;
	void* buf = k.momentum != 0 ? s->state[1] : 0;
	void* mean = s->state[buf ? 2 : 1];
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		acc w = load_as(s->weight, s->weight_type, i), d = (acc)load_as(s->grad, s->grad_type, i) * scale;
		acc v = load_as(s->state[0], s->state_type, i);
		if (maximize) d = -d;
		d += decay * w;
		v = b2 * v + w2 * d * d;
		store_as(s->state[0], s->state_type, i, v);
		if (mean) {
			acc m = load_as(mean, s->state_type, i);
			m = w1 < (acc)0.5 ? m + w1 * (d - m) : d - (d - m) * b1; // torch.lerp starts from the nearer end
			store_as(mean, s->state_type, i, m);
			v -= m * m;
		}
		d /= sqrt(v) + eps;
		if (buf) {
			d += momentum * (acc)load_as(buf, s->state_type, i);
			store_as(buf, s->state_type, i, d);
		}
		put(s, i, w - lr * d);
	}
}

// average_update moves each average by w towards its weight, or copies the weight.
KERNEL average_update(const Slot* slots, const Part* parts, double w, int first) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	if (!s->average) return;
	acc w1 = w, b1 = 1 - w;
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		acc v = load_as(s->weight, s->weight_type, i);
		if (!first) {
			acc e = load_as(s->average, s->average_type, i);
			v = w1 < (acc)0.5 ? e + w1 * (v - e) : v - (v - e) * b1; // torch.lerp starts from the nearer end
		}
		store_as(s->average, s->average_type, i, v);
	}
}

// average_exchange exchanges values and averages. A half value is kept aside meanwhile, and its
// average stays what it is.
KERNEL average_exchange(const Slot* slots, const Part* parts, int back) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	if (!s->average) return;
	for (u32 i = p.from + threadIdx.x; i < p.to; i += blockDim.x) {
		acc v = load_as(s->value, s->value_type, i), next;
		if (s->aside && back) {
			next = load_as(s->aside, s->value_type, i);
		} else {
			next = load_as(s->average, s->average_type, i);
			if (s->aside) store_as(s->aside, s->value_type, i, v);
			else store_as(s->average, s->average_type, i, v);
		}
		store_as(s->value, s->value_type, i, next);
		if (s->copy) store_as(s->copy, s->copy_type, i, (float)next);
	}
}
