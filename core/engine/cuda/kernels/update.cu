// What an optimizer does to all parameters at once: a block has one part of one slot.

// Slot is a parameter; value is weight unless it is a half one with a master copy.
// copy is where a float32 value is rounded to the type that steps compute with; null where none does.
struct Slot {
	void *value, *weight, *grad, *state[3], *copy;
	int value_type, weight_type, grad_type, state_type;
	u32 n;
	int copy_type;
};

struct Part {
	u32 slot, from, to, spare;
};

// Numbers are those of one step: common ones, or where own is given a slot's own.
struct Numbers {
	double scale, lr, momentum, keep, decay, shrink, w1, w2, b1, b2, step_size, root_scale, eps;
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

// sgd_update is PyTorch's SGD (torch/optim/sgd.py).
KERNEL sgd_update(const Slot* slots, const Part* parts, Numbers common, const Numbers* own, int nesterov, int maximize) {
	Part p = parts[blockIdx.x];
	const Slot* s = &slots[p.slot];
	const Numbers k = own ? own[p.slot] : common;
	if (k.idle) return;
	acc scale = k.scale, lr = k.lr, momentum = k.momentum, keep = k.keep, decay = k.decay;
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
