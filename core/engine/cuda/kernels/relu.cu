// The rectified linear unit: a NaN stays NaN and passes the gradient.

KERNEL relu_of(const elem* x, elem* y, u32 n) { function_of(relu_value(v)) }
KERNEL relu_grad(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(v <= 0 ? 0 : dv) } // x is the output
