// min(max(x, 0), 6): a NaN stays NaN and passes the gradient.

KERNEL relu6_of(const elem* x, elem* y, u32 n) { function_of(v > 6 ? 6 : relu_value(v)) }
KERNEL relu6_grad(const elem* x, const elem* dy, elem* dx, u32 n) { function_of_two(v <= 0 || v >= 6 ? 0 : dv) } // x is the output
