// x·Φ(x), or its tanh form where tanh_form is not 0.

__device__ inline acc gelu_phi(acc x, int tanh_form) {
	const acc scale = (acc)0.7978845608028654, cubic = (acc)0.044715;
	if (tanh_form) return (acc)0.5 * (1 + tanh(scale * (x + cubic * x * x * x)));
	return (acc)0.5 * (1 + erf(x * (acc)0.7071067811865476));
}

__device__ inline acc gelu_slope(acc x, int tanh_form) {
	const acc scale = (acc)0.7978845608028654, cubic = (acc)0.044715, density = (acc)0.3989422804014327;
	if (!tanh_form) return gelu_phi(x, 0) + x * density * exp((acc)-0.5 * x * x);
	acc t = tanh(scale * (x + cubic * x * x * x));
	return (acc)0.5 * (1 + t) + (acc)0.5 * x * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
}

KERNEL gelu_of(const elem* x, elem* y, acc tanh_form, u32 n) { function_of(v * gelu_phi(v, tanh_form != 0)) }
KERNEL gelu_grad(const elem* x, const elem* dy, elem* dx, acc tanh_form, u32 n) { function_of_two(dv * gelu_slope(v, tanh_form != 0)) } // x is the input
