// Matrix products without cuBLASLt: C [m, n] = A·B + bias, or added to C. The
// element of A in row i and column l is a[i·ai + l·al], likewise B's, so that
// transposes are strides. A block makes 64×64 elements, a thread PER×PER.

#define TILE 64
#define DEPTH 16
#if BLOCK == 256
#define PER 4
#else
#define PER 8 // of 64 threads
#endif

KERNEL gemm(const elem* a, i64 ai, i64 al, const elem* b, i64 bl, i64 bj, const elem* bias, elem* c, int m, int n, int k, int add) {
	__shared__ acc ta[DEPTH][TILE], tb[DEPTH][TILE];
	int row = blockIdx.y * TILE, col = blockIdx.x * TILE, t = threadIdx.x, ti = t / (TILE / PER) * PER, tj = t % (TILE / PER) * PER;
	acc sum[PER][PER] = {};
	for (int l0 = 0; l0 < k; l0 += DEPTH) {
		for (int e = t; e < DEPTH * TILE; e += BLOCK) {
			// neighbours in a warp read along the contiguous dimension
			int ia = al == 1 ? e / DEPTH : e % TILE, la = al == 1 ? e % DEPTH : e / TILE;
			int jb = bl == 1 ? e / DEPTH : e % TILE, lb = bl == 1 ? e % DEPTH : e / TILE;
			ta[la][ia] = row + ia < m && l0 + la < k ? load(a, (row + ia) * ai + (l0 + la) * al) : 0;
			tb[lb][jb] = col + jb < n && l0 + lb < k ? load(b, (l0 + lb) * bl + (col + jb) * bj) : 0;
		}
		__syncthreads();
		for (int l = 0; l < DEPTH; l++)
			for (int i = 0; i < PER; i++)
				for (int j = 0; j < PER; j++) sum[i][j] += ta[l][ti + i] * tb[l][tj + j];
		__syncthreads();
	}
	for (int i = row + ti; i < row + ti + PER && i < m; i++)
		for (int j = col + tj; j < col + tj + PER && j < n; j++) {
			acc v = sum[i - row - ti][j - col - tj];
			if (bias) v += load(bias, j);
			i64 at = (i64)i * n + j;
			store(c, at, add ? rounded(v) + load(c, at) : v);
		}
}

// column_sums adds up the rows of x [rows, cols], 32 columns of a block at a time.
KERNEL column_sums(const elem* x, int rows, int cols, void* y, int type, int add) {
	__shared__ acc buf[BLOCK / 32][32];
	int j = blockIdx.x * 32 + threadIdx.x % 32, lane = threadIdx.x / 32;
	acc sum = 0;
	if (j < cols)
		for (int i = lane; i < rows; i += BLOCK / 32) sum += load(x, (i64)i * cols + j);
	buf[lane][threadIdx.x % 32] = sum;
	__syncthreads();
	if (lane != 0 || j >= cols) return;
	for (int l = 1; l < BLOCK / 32; l++) sum += buf[l][threadIdx.x];
	store_grad(y, type, j, sum, add);
}
