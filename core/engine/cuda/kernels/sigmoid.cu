// The logistic function.

KERNEL sigmoid_of(const elem* x, elem* y, u32 n) { function_of(1 / (1 + exp(-v))) }
KERNEL sigmoid_grad(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(dv * v * (1 - v)) } // x is the output
