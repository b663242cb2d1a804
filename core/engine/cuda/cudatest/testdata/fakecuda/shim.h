// What CUDA C++ needs to be an ordinary C++ program that runs one block after
// the other. Threads of a block are coroutines: each runs to its next barrier,
// then the next one does, so shared memory and barriers mean what they mean on
// a GPU, and a missing barrier shows as a wrong result for some thread.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <ucontext.h>
#include <utility>

using std::erf;
using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

#define __global__
#define __device__ static
#define __shared__ static

struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, blockDim, gridDim;

// A coroutine is entered by setcontext the first time and by longjmp after: no system calls.
struct Fiber { ucontext_t start; jmp_buf at; bool begun, finished; };
static jmp_buf scheduler;
static Fiber* fiber;
static bool coroutines; // the running block has barriers, so its threads are coroutines
__attribute__((noinline)) static void __syncthreads() {
	if (!coroutines) {
		std::fprintf(stderr, "fake CUDA: a barrier in a kernel that seems to have none; see barriers in fakenvrtc.cpp\n");
		std::abort();
	}
	Dim t = threadIdx;
	if (!_setjmp(fiber->at)) _longjmp(scheduler, 1);
	threadIdx = t;
}

// IEEE half, by arithmetic: an oracle that shares nothing with the instruction.
static float half_float(unsigned short h) {
	int e = h >> 10 & 31, m = h & 1023;
	float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
	return h & 0x8000 ? -f : f;
}

static unsigned short float_half(float f) {
	unsigned short sign = std::signbit(f) ? 0x8000 : 0;
	double a = std::fabs((double)f);
	if (a != a) return sign | 0x7e00;
	if (a >= 65520) return sign | 0x7c00;
	int e = a < std::ldexp(1, -14) ? -14 : std::ilogb(a);
	double m = std::nearbyint(std::ldexp(a, 10 - e)); // of 2^(e-10), ties to even
	return sign | (m < 1024 ? (int)m : ((e + 15) << 10) + (int)m - 1024);
}
