// x above 0, slope·x below.

KERNEL leaky_relu_of(const elem* x, elem* y, acc slope, u32 n) { function_of(v > 0 ? v : slope * v) }
KERNEL leaky_relu_grad(const elem* x, const elem* dy, elem* dx, acc slope, u32 n) { function_of_two(v > 0 ? dv : slope * dv) } // x is the input
