// A made-up library that reports what arrived in its calls: each function
// returns 0 when every argument has the value that bind_test.go passes, and
// otherwise the position of the first one that has not.
#include <stdint.h>
#include <stddef.h>

typedef struct { char bytes[64]; } handle64;
typedef struct { char bytes[128]; } id128;

static int filled(const char *b, int n, int first) {
	for (int i = 0; i < n; i++)
		if (b[i] != (char)(first + i)) return 0;
	return 1;
}

int fakeStatus(int code) { return code; }

int fakeOpen64(uint64_t *p, handle64 h, unsigned flags) {
	if (!filled(h.bytes, 64, 1)) return 2;
	if (flags != 7) return 3;
	*p = 0x1122334455667788ull;
	return 0;
}

int fakeInit128(void **comm, int n, id128 id, int rank, void *config) {
	if (n != 4) return 2;
	if (!filled(id.bytes, 128, 3)) return 3;
	if (rank != 2) return 4;
	if (*(int *)config != 48) return 5;
	*comm = (void *)0x77;
	return 0;
}

#define WANT(i) if (a##i != i) return i
int fakeSixteen(int64_t a1, int64_t a2, int64_t a3, int64_t a4, int64_t a5, int64_t a6, int64_t a7, int64_t a8,
	int64_t a9, int64_t a10, int64_t a11, int64_t a12, int64_t a13, int64_t a14, int64_t a15, int64_t a16) {
	WANT(1); WANT(2); WANT(3); WANT(4); WANT(5); WANT(6); WANT(7); WANT(8);
	WANT(9); WANT(10); WANT(11); WANT(12); WANT(13); WANT(14); WANT(15); WANT(16);
	return 0;
}

// Narrow integers among wide ones, and doubles that take no stack words.
int fakeMixed(int64_t a1, int32_t a2, int64_t a3, uint8_t a4, int64_t a5, uint16_t a6, double f1, int64_t a7, int32_t a8,
	int64_t a9, int64_t a10, double f2, float f3, int64_t a11, int32_t a12, int64_t a13, int64_t a14, int64_t a15, int64_t a16,
	int64_t a17, int64_t a18, int64_t a19, int64_t a20, int64_t a21, int64_t a22) {
	WANT(1); WANT(2); WANT(3); WANT(4); WANT(5); WANT(6); WANT(7); WANT(8);
	WANT(9); WANT(10); WANT(11); WANT(12); WANT(13); WANT(14); WANT(15); WANT(16);
	WANT(17); WANT(18); WANT(19); WANT(20); WANT(21); WANT(22);
	if (f1 != 0.1) return 101;
	if (f2 != 1e-5) return 102;
	if (f3 != 0.5f) return 103;
	return 0;
}

// As many words as cuDNN's longest function, batch norm backward, has.
int fakeThirty(int64_t a1, int64_t a2, int64_t a3, int64_t a4, int64_t a5, int64_t a6, int64_t a7, int64_t a8, int64_t a9, int64_t a10,
	int64_t a11, int64_t a12, int64_t a13, int64_t a14, int64_t a15, int64_t a16, int64_t a17, int64_t a18, int64_t a19, int64_t a20,
	int64_t a21, int64_t a22, double f1, int64_t a23, int64_t a24, int64_t a25, int64_t a26, int64_t a27, int64_t a28, int64_t a29) {
	WANT(1); WANT(6); WANT(7); WANT(8); WANT(14); WANT(15); WANT(16); WANT(22); WANT(23); WANT(24);
	WANT(25); WANT(26); WANT(27); WANT(28); WANT(29);
	return f1 == 1e-5 ? 0 : 101;
}

const char *fakeName(int code) { return code == 5 ? "five" : "other"; }

size_t fakeVersion(void) { return 92800; }
