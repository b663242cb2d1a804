// x·σ(x).

__device__ inline acc silu_slope(acc x) {
	acc s = 1 / (1 + exp(-x));
	return s * (1 + x * (1 - s));
}

KERNEL silu_of(const elem* x, elem* y, u32 n) { function_of(v / (1 + exp(-v))) }
KERNEL silu_grad(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(dv * silu_slope(v)) } // x is the input
