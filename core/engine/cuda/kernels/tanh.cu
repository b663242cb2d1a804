// The hyperbolic tangent.

KERNEL tanh_of(const elem* x, elem* y, u32 n) { function_of(tanh(v)) }
KERNEL tanh_grad(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(dv * (1 - v * v)) } // x is the output
