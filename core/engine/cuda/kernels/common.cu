// What every family of kernels shares. A file is compiled once per element type:
// ELEM is 0 for float, 1 for double, 2 for IEEE half, 3 for bfloat16; BLOCK is
// the threads of every block, a power of two from 64 to 256. Elements
// are widened to acc when they are read and rounded once when they are written.
// Nothing is added by atomics: equal runs give equal bits.

#define KERNEL extern "C" __global__ void

#ifdef __CUDACC__
#define UNROLL _Pragma("unroll 4") // loads of four rounds are under way together
#else
#define UNROLL
#endif

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

// Element types that are known only at run time: per-channel tensors and gradients of
// parameters may have another type than the activations.
enum { F32, F64, F16, BF16 };

#if ELEM == 0
typedef float elem;
#elif ELEM == 1
typedef double elem;
#else
typedef u16 elem;
#endif

#if ELEM == 1
typedef double acc;
#else
typedef float acc;
#endif

__device__ inline float bits_float(u32 b) {
	union { u32 u; float f; } v;
	v.u = b;
	return v.f;
}

__device__ inline u32 float_bits(float f) {
	union { u32 u; float f; } v;
	v.f = f;
	return v.u;
}

// least is −∞, where a maximum begins.
__device__ inline float least() { return bits_float(0xff800000u); }

// half_float and float_half are instructions on the device and arithmetic elsewhere.
#ifdef __CUDACC__
__device__ inline float half_float(u16 h) {
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}

__device__ inline u16 float_half(float f) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
}
#endif

__device__ inline float bfloat_float(u16 h) { return bits_float((u32)h << 16); }

// Round to nearest, ties to even; a NaN stays a quiet one.
__device__ inline u16 float_bfloat(float f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	u16 h;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
	return h;
#endif
	u32 b = float_bits(f);
	if ((b & 0x7fffffffu) > 0x7f800000u) return (u16)((b >> 16) | 0x40);
	return (u16)((b + 0x7fffu + ((b >> 16) & 1)) >> 16);
}

__device__ inline acc load(const elem* p, i64 i) {
#if ELEM == 2
	return half_float(p[i]);
#elif ELEM == 3
	return bfloat_float(p[i]);
#else
	return p[i];
#endif
}

__device__ inline void store(elem* p, i64 i, acc v) {
#if ELEM == 2
	p[i] = float_half(v);
#elif ELEM == 3
	p[i] = float_bfloat(v);
#else
	p[i] = v;
#endif
}

// rounded is a value after a store and a load.
__device__ inline acc rounded(acc v) {
	elem e;
	store(&e, 0, v);
	return load(&e, 0);
}

__device__ inline double load_as(const void* p, int type, i64 i) {
	switch (type) {
	case F64: return ((const double*)p)[i];
	case F16: return half_float(((const u16*)p)[i]);
	case BF16: return bfloat_float(((const u16*)p)[i]);
	}
	return ((const float*)p)[i];
}

__device__ inline void store_as(void* p, int type, i64 i, double v) {
	switch (type) {
	case F64: ((double*)p)[i] = v; break;
	case F16: ((u16*)p)[i] = float_half((float)v); break;
	case BF16: ((u16*)p)[i] = float_bfloat((float)v); break;
	default: ((float*)p)[i] = (float)v;
	}
}

// store_grad writes a gradient of a parameter, or adds to it. A half one rounds
// its own value before the sum, as autograd's accumulation does.
__device__ inline void store_grad(void* p, int type, i64 i, double v, int add) {
	if (add) {
		if (type == F16) v = half_float(float_half((float)v));
		if (type == BF16) v = bfloat_float(float_bfloat((float)v));
		if (type == F32) v = (float)v + (float)load_as(p, type, i);
		else v += load_as(p, type, i);
	}
	store_as(p, type, i, v);
}

// Call is what changes between two runs of a plan; a captured graph reads it from memory.
struct Call {
	double grad_scale;
	u64 seed, stream;
};

// Fault is the first index of a batch that is out of range; limit 0 for none.
struct Fault {
	int what, at, value, limit;
};

// each walks n elements with all threads of the grid; each_four takes four at a time.
#define each(i, n) for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < (u32)(n); i += gridDim.x * blockDim.x)
#define each_four(i, n) for (u32 i = 4 * (blockIdx.x * blockDim.x + threadIdx.x); i < (u32)(n); i += 4 * gridDim.x * blockDim.x)

// four are elements i to i+3, i a multiple of 4, moved in one piece. Tensors
// begin at multiples of 16 bytes; behind the n-th element nothing is touched.
struct four {
	acc v[4];
};

struct alignas(4 * sizeof(elem)) packed {
	elem e[4];
};

__device__ inline four load_four(const elem* p, u32 i, u32 n) {
	four f;
	if (i + 4 <= n) {
		packed a = *(const packed*)(p + i);
		for (int j = 0; j < 4; j++) f.v[j] = load(a.e, j);
	} else {
		for (int j = 0; j < 4; j++) f.v[j] = i + j < n ? load(p, i + j) : 0;
	}
	return f;
}

__device__ inline void store_four(elem* p, u32 i, u32 n, const four& f) {
	if (i + 4 <= n) {
		packed a;
		for (int j = 0; j < 4; j++) store(a.e, j, f.v[j]);
		*(packed*)(p + i) = a;
	} else {
		for (u32 j = 0; j < 4; j++)
			if (i + j < n) store(p, i + j, f.v[j]);
	}
}

// lane_sum sums over the threads of a block whose indices are equal modulo lanes, a
// power of two, in a fixed order. Each thread gets the sum of its lane.
template <class T> __device__ T lane_sum(T v, u32 lanes) {
	__shared__ T buf[BLOCK];
	u32 t = threadIdx.x;
	__syncthreads(); // the last call's result may still be read
	buf[t] = v;
	__syncthreads();
	for (u32 s = BLOCK / 2; s >= lanes; s /= 2) {
		if (t < s) buf[t] += buf[t + s];
		__syncthreads();
	}
	return buf[t % lanes];
}

// block_sum sums over all threads of a block: first within each warp, then over the
// warps.
#ifdef __CUDACC__
template <class T> __device__ T block_sum(T v) {
	__shared__ T buf[32];
	u32 t = threadIdx.x;
	for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(0xffffffffu, v, s);
	__syncthreads(); // the last call's result may still be read
	if (t % 32 == 0) buf[t / 32] = v;
	__syncthreads();
	T sum = buf[0];
	for (int w = 1; w < BLOCK / 32; w++) sum += buf[w];
	return sum;
}
#else
template <class T> __device__ T block_sum(T v) { return lane_sum(v, 1); }
#endif

// block_max is the largest over all threads of a block.
template <class T> __device__ T block_max(T v) {
	__shared__ T buf[BLOCK];
	u32 t = threadIdx.x;
	__syncthreads(); // the last call's result may still be read
	buf[t] = v;
	__syncthreads();
	for (u32 s = BLOCK / 2; s > 0; s /= 2) {
		if (t < s && buf[t + s] > buf[t]) buf[t] = buf[t + s];
		__syncthreads();
	}
	return buf[0];
}

// block_sum_pairs adds up n pairs of numbers over all threads of a block.
__device__ inline void block_sum_pairs(const double* pairs, int n, double* a, double* b) {
	double first = 0, second = 0;
	for (int i = threadIdx.x; i < n; i += BLOCK) {
		first += pairs[2 * i];
		second += pairs[2 * i + 1];
	}
	*a = block_sum(first);
	*b = block_sum(second);
}

// part_of cuts total things into gridDim.y shares.
__device__ inline void part_of(u32 total, u32* lo, u32* hi) {
	*lo = (u32)((u64)total * blockIdx.y / gridDim.y);
	*hi = (u32)((u64)total * (blockIdx.y + 1) / gridDim.y);
}
