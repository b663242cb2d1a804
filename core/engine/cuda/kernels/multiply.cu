// Products of two tensors, the second of which may have an element for each row of the first.

KERNEL multiply(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(v * dv) }

KERNEL multiply_rows(const elem* x, const elem* factor, int cols, elem* y, u32 n) {
	each(i, n) store(y, i, load(x, i) * load(factor, i / cols));
}

// dot_rows has a block per row.
KERNEL dot_rows(const elem* x, const elem* y, int cols, elem* dots) {
	i64 row = (i64)blockIdx.x * cols;
	acc sum = 0;
	for (u32 j = threadIdx.x; j < (u32)cols; j += BLOCK) sum += load(x, row + j) * load(y, row + j);
	sum = block_sum(sum);
	if (threadIdx.x == 0) store(dots, blockIdx.x, sum);
}
