// Softmax over rows, a block each. The output may go over the input.

KERNEL softmax(const elem* x, int cols, elem* y) {
	i64 row = (i64)blockIdx.x * cols;
	acc top = least(), sum = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) {
		acc v = load(x, row + j);
		if (v > top) top = v;
	}
	top = block_max(top);
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) sum += exp(load(x, row + j) - top);
	sum = block_sum(sum);
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) store(y, row + j, exp(load(x, row + j) - top) / sum);
}

KERNEL softmax_grad(const elem* y, const elem* dy, int cols, elem* dx) {
	i64 row = (i64)blockIdx.x * cols;
	acc dot = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) dot += load(y, row + j) * load(dy, row + j);
	dot = block_sum(dot);
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) store(dx, row + j, load(y, row + j) * (load(dy, row + j) - dot));
}
