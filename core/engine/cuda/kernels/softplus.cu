// log(1 + exp(beta·x)) / beta, and x where beta·x is above the threshold.

KERNEL softplus_of(const elem* x, elem* y, acc beta, acc threshold, u32 n) {
	function_of(v * beta > threshold ? v : log1p(exp(v * beta)) / beta)
}
KERNEL softplus_grad(const elem* x, const elem* dy, elem* dx, acc beta, acc threshold, u32 n) {
	function_of_two(v * beta > threshold ? dv : dv / (1 + exp(-v * beta))) // x is the input
}
