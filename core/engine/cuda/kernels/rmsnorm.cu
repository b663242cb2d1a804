// rms_norm has a block per row.
KERNEL rms_norm(const elem* x, const void* weight, int type, int cols, double eps, elem* y, acc* invrms) {
	x += (i64)blockIdx.x * cols;
	y += (i64)blockIdx.x * cols;
	acc square = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) square += load(x, j) * load(x, j);
	acc inv = (acc)(1 / sqrt((double)block_sum(square) / cols + eps));
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc v = load(x, j) * inv;
		store(y, j, weight ? v * (acc)load_as(weight, type, j) : v);
	}
	if (threadIdx.x == 0) invrms[blockIdx.x] = inv;
}

KERNEL rms_norm_grad_weight(const elem* x, const elem* dy, const acc* invrms, int rows, int cols, void* dweight, int type, int add) {
	each(j, cols) {
		acc w = 0;
		for (int r = 0; r < rows; r++) w += load(dy, (i64)r * cols + j) * load(x, (i64)r * cols + j) * invrms[r];
		store_grad(dweight, type, j, w, add);
	}
}

// rms_norm_grad_input has a block per row. dx may be dy.
KERNEL rms_norm_grad_input(const elem* x, const elem* dy, const acc* invrms, const void* weight, int type, int cols, elem* dx) {
	i64 row = (i64)blockIdx.x * cols;
	acc inv = invrms[blockIdx.x], dot = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) dot += load(dy, row + j) * (weight ? (acc)load_as(weight, type, j) : 1) * load(x, row + j);
	acc slope = block_sum(dot) / cols * inv * inv;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc g = load(dy, row + j) * (weight ? (acc)load_as(weight, type, j) : 1);
		store(dx, row + j, (g - load(x, row + j) * slope) * inv);
	}
}
