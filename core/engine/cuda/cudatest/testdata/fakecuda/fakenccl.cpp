// A fake libnccl that reduces memory of the fake libcuda, on its streams, in
// processes that meet in memory which rank 0's unique id names. It promises more
// than NCCL does, so that runs can be compared: sums are made in rank order, half
// types in float32 and rounded once. Like NCCL it waits for ever for a peer that
// does not come, until somebody aborts, and takes one rank for each GPU unless
// NCCL_MULTI_RANK_GPU_ENABLE=1.
//
// NCCL_FAKE_VERSION is what it says it is. NCCL_FAKE_HANG=rank:call makes a rank's
// n-th operation of its first communicator one that never ends by itself.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

typedef unsigned long long u64;
typedef uint32_t u32;
#include "share.h"

enum { Success = 0, CudaError = 1, SystemError = 2, InvalidArgument = 4, InvalidUsage = 5, InProgress = 7, NotSupported = InvalidUsage };
enum { Ranks = 8, Chunk = 256 << 10, IdMagic = 0xfa4ecc };

// Rank is what one rank shows the others.
struct Rank {
	std::atomic<u32> joined, waits, phase, version;
	unsigned char device[16];
	struct Call { int op, type, reduction, root; u64 count; } call;
};

// Meeting is the memory of a communicator. Behind it lie a chunk for each rank
// and one for each pair of ranks.
struct Meeting {
	std::atomic<u32> bell; // rung when anything here changes
	std::atomic<u32> size;
	Rank ranks[Ranks];
	std::atomic<u32> sent[Ranks][Ranks], taken[Ranks][Ranks];

	char* part(int rank) { return (char*)this + 65536 + size_t(rank) * Chunk; }
	char* mail(int from, int to) { return part(Ranks + from * Ranks + to); }
};
static const size_t meeting_size = 65536 + size_t(Ranks + Ranks * Ranks) * Chunk;
static_assert(sizeof(Meeting) <= 65536, "the chunks lie behind it");

struct Stream;

// Driver is what is asked of the fake libcuda, which is open already.
struct Driver {
	void (*enqueue)(Stream*, void (*)(void*), void*, u64*) = nullptr;
	void (*want)(Stream*, u64) = nullptr;
	void (*busy)(Stream*, int) = nullptr;
	int (*covered)(u64, size_t) = nullptr;
	int (*current)(void**) = nullptr;
	int (*uuid)(unsigned char*, int) = nullptr;
	template <class F> static void find(F& f, const char* name) { f = (F)dlsym(RTLD_DEFAULT, name); }
	Driver() {
		find(enqueue, "fakecuda_enqueue");
		find(want, "fakecuda_want");
		find(busy, "fakecuda_busy");
		find(covered, "fakecuda_covered");
		find(current, "cuCtxGetCurrent");
		find(uuid, "cuDeviceGetUuid_v2");
	}
};

static Driver& driver() {
	static Driver d;
	return d;
}

struct Pending {
	Stream* stream;
	u64 at;
};

struct Work;

struct Comm {
	bool blocking = true;
	Work* launching = nullptr; // an operation that is in progress, until somebody has asked about it twice
	int asked = 0;
	int rank = 0, size = 0, number = 0;
	Handle id = {};
	unsigned char device[16] = {};
	Meeting* meeting = nullptr;
	std::atomic<int> state{InProgress};
	std::atomic<bool> aborted{false}, over{false};
	std::atomic<u64> issued{0}, done{0};
	std::mutex mutex;
	std::vector<Pending> pending; // where its operations are
	std::string error;
	std::thread helper;
};

static thread_local std::string last_error;

static int version() {
	const char* v = std::getenv("NCCL_FAKE_VERSION");
	return v && *v ? std::atoi(v) : 23004;
}

static int fail(Comm* c, int code, const std::string& what) {
	{
		std::lock_guard<std::mutex> guard(c->mutex);
		c->error = what;
	}
	c->state = code;
	return code;
}

// until waits for something that another rank does; false after an abort. Who
// waits lets the others run what they have enqueued.
template <class F> static bool until(Comm* c, F happened) {
	Meeting* m = c->meeting;
	Rank& own = m->ranks[c->rank];
	for (bool first = true;; first = false) {
		u32 heard = m->bell;
		if (c->aborted || happened()) break;
		if (first) {
			own.waits = 1;
			ring(&m->bell);
			continue;
		}
		doze(&m->bell, heard, 100);
	}
	own.waits = 0;
	return !c->aborted;
}

// barrier returns when all ranks have come so far.
static bool barrier(Comm* c) {
	Meeting* m = c->meeting;
	u32 mine = ++m->ranks[c->rank].phase;
	ring(&m->bell);
	return until(c, [=] {
		for (int r = 0; r < c->size; r++)
			if (int(mine - m->ranks[r].phase) > 0) return false;
		return true;
	});
}

static size_t width(int type) {
	static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return type >= 0 && type < 10 ? widths[type] : 0;
}

enum { Sum, Prod, Max, Min, Avg };

// Elements as they lie in memory, and as they are reduced.
template <class T> struct Plain {
	typedef T Wide;
	static T widen(T v) { return v; }
	static T narrow(T v) { return v; }
	typedef T Stored;
};

struct BFloat {
	typedef float Wide;
	typedef uint16_t Stored;
	static float widen(uint16_t v) {
		u32 b = u32(v) << 16;
		float f;
		std::memcpy(&f, &b, 4);
		return f;
	}
	static uint16_t narrow(float f) {
		u32 b;
		std::memcpy(&b, &f, 4);
		if (f != f) return uint16_t(b >> 16 | 64);
		return uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
	}
};

struct Half {
	typedef float Wide;
	typedef uint16_t Stored;
	static float widen(uint16_t h) {
		int e = h >> 10 & 31, m = h & 1023;
		float f = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
		return h & 0x8000 ? -f : f;
	}
	static uint16_t narrow(float f) {
		uint16_t sign = std::signbit(f) ? 0x8000 : 0;
		double a = std::fabs(double(f));
		if (a != a) return sign | 0x7e00;
		if (a >= 65520) return sign | 0x7c00;
		int e = a < std::ldexp(1, -14) ? -14 : std::ilogb(a);
		double m = std::nearbyint(std::ldexp(a, 10 - e)); // of 2^(e-10), ties to even
		return sign | (m < 1024 ? int(m) : ((e + 15) << 10) + int(m) - 1024);
	}
};

template <class W> static bool nan(W v) { return v != v; }

template <class W> static W combine(int reduction, W a, W b) {
	switch (reduction) {
	case Prod: return a * b;
	case Max: return nan(a) || a > b ? a : b;
	case Min: return nan(a) || a < b ? a : b;
	}
	return a + b;
}

template <class E> static void reduce(Meeting* m, int ranks, size_t from, size_t n, int reduction, void* to) {
	for (size_t i = 0; i < n; i++) {
		auto at = [&](int r) { return E::widen(((typename E::Stored*)m->part(r))[from + i]); };
		typename E::Wide sum = at(0);
		for (int r = 1; r < ranks; r++) sum = combine(reduction, sum, at(r));
		if (reduction == Avg) sum = typename E::Wide(sum / typename E::Wide(ranks));
		((typename E::Stored*)to)[i] = E::narrow(sum);
	}
}

static void reduce_type(Meeting* m, int ranks, size_t n, int type, int reduction, void* to) {
	switch (type) {
	case 0: return reduce<Plain<int8_t>>(m, ranks, 0, n, reduction, to);
	case 1: return reduce<Plain<uint8_t>>(m, ranks, 0, n, reduction, to);
	case 2: return reduce<Plain<int32_t>>(m, ranks, 0, n, reduction, to);
	case 3: return reduce<Plain<uint32_t>>(m, ranks, 0, n, reduction, to);
	case 4: return reduce<Plain<int64_t>>(m, ranks, 0, n, reduction, to);
	case 5: return reduce<Plain<uint64_t>>(m, ranks, 0, n, reduction, to);
	case 6: return reduce<Half>(m, ranks, 0, n, reduction, to);
	case 7: return reduce<Plain<float>>(m, ranks, 0, n, reduction, to);
	case 8: return reduce<Plain<double>>(m, ranks, 0, n, reduction, to);
	case 9: return reduce<BFloat>(m, ranks, 0, n, reduction, to);
	}
}

enum Kind { AllReduce, Broadcast, AllGather, ReduceScatter, Send, Recv };

struct Work {
	std::shared_ptr<Comm> comm;
	Kind kind;
	const char* send;
	char* receive;
	u64 count;
	int type, reduction, root;
	u64 number; // of the communicator's operations
	Stream* stream;
};

// agree compares the calls. Ranks that disagree would hang in NCCL, and so they do here.
static bool agree(const Work& w) {
	Comm* c = w.comm.get();
	Meeting* m = c->meeting;
	m->ranks[c->rank].call = {w.kind, w.type, w.reduction, w.root, w.count};
	if (!barrier(c)) return false;
	for (int r = 0; r < c->size; r++)
		if (std::memcmp(&m->ranks[0].call, &m->ranks[r].call, sizeof(Rank::Call)) != 0) {
			std::fprintf(stderr, "fakenccl: ranks 0 and %d call different operations\n", r);
			return until(c, [] { return false; });
		}
	return true;
}

// swap brings a chunk of each rank's to all: what(from, bytes) reads it there.
template <class F> static void swap(const Work& w, u64 bytes, F what) {
	Comm* c = w.comm.get();
	for (u64 from = 0; from < bytes; from += Chunk) {
		size_t n = std::min<u64>(Chunk, bytes - from);
		std::memcpy(c->meeting->part(c->rank), w.send + from, n);
		if (!barrier(c)) return;
		what(from, n);
		if (!barrier(c)) return;
	}
}

static void all_reduce(const Work& w) {
	size_t size = width(w.type);
	swap(w, w.count * size, [&](u64 from, size_t n) { reduce_type(w.comm->meeting, w.comm->size, n / size, w.type, w.reduction, w.receive + from); });
}

static void all_gather(const Work& w) {
	u64 bytes = w.count * width(w.type);
	swap(w, bytes, [&](u64 from, size_t n) {
		for (int r = 0; r < w.comm->size; r++) std::memcpy(w.receive + r * bytes + from, w.comm->meeting->part(r), n);
	});
}

// reduce_scatter reduces every rank's part in turn; each keeps its own.
static void reduce_scatter(const Work& w) {
	size_t size = width(w.type);
	u64 bytes = w.count * size;
	std::vector<char> kept(bytes); // receive may lie within send
	for (int r = 0; r < w.comm->size; r++) {
		Work part = w;
		part.send += r * bytes;
		swap(part, bytes, [&](u64 from, size_t n) {
			if (r == w.comm->rank) reduce_type(w.comm->meeting, w.comm->size, n / size, w.type, w.reduction, kept.data() + from);
		});
	}
	if (!w.comm->aborted) std::memcpy(w.receive, kept.data(), bytes);
}

static void broadcast(const Work& w) {
	swap(w, w.count * width(w.type), [&](u64 from, size_t n) {
		if (w.comm->rank != w.root) std::memcpy(w.receive + from, w.comm->meeting->part(w.root), n);
	});
}

static void transfer(const Work& w) {
	Comm* c = w.comm.get();
	Meeting* m = c->meeting;
	bool sends = w.kind == Send;
	int from = sends ? c->rank : w.root, to = sends ? w.root : c->rank;
	std::atomic<u32>&sent = m->sent[from][to], &taken = m->taken[from][to];
	for (u64 at = 0, bytes = w.count * width(w.type); at < bytes; at += Chunk) {
		size_t n = std::min<u64>(Chunk, bytes - at);
		if (!until(c, [&] { return sends ? sent == taken : sent != taken; })) return;
		if (sends) std::memcpy(m->mail(from, to), w.send + at, n);
		else std::memcpy(w.receive + at, m->mail(from, to), n);
		(sends ? sent : taken)++;
		ring(&m->bell);
	}
}

// hangs tells whether this operation was chosen never to end.
static bool hangs(const Work& w) {
	int rank, call;
	const char* chosen = std::getenv("NCCL_FAKE_HANG");
	return chosen && std::sscanf(chosen, "%d:%d", &rank, &call) == 2 && w.comm->number == 0 && w.comm->rank == rank && w.number == u64(call);
}

static void run(const Work& w) {
	Comm* c = w.comm.get();
	if (c->aborted) return;
	if (hangs(w)) {
		until(c, [] { return false; });
		return;
	}
	if (w.kind == Send || w.kind == Recv) return transfer(w);
	if (!agree(w)) return;
	switch (w.kind) {
	case AllReduce: return all_reduce(w);
	case Broadcast: return broadcast(w);
	case AllGather: return all_gather(w);
	default: return reduce_scatter(w);
	}
}

static void run_enqueued(void* arg) {
	std::unique_ptr<Work> w((Work*)arg);
	run(*w);
	w->comm->done++;
}

// Threads may still use these when the program ends.
static std::mutex& big = *new std::mutex;
static auto& comms = *new std::vector<std::shared_ptr<Comm>>; // by handle, from 1
static int created;

static std::shared_ptr<Comm> of(uintptr_t handle) {
	std::lock_guard<std::mutex> guard(big);
	return handle >= 1 && handle <= comms.size() ? comms[handle - 1] : nullptr;
}

// pending lets what this rank has enqueued run.
static void release(Comm* c) {
	std::lock_guard<std::mutex> guard(c->mutex);
	for (const Pending& p : c->pending) driver().want(p.stream, p.at);
	c->pending.clear();
}

static bool awaited(Comm* c) {
	for (int r = 0; r < c->size; r++)
		if (c->meeting->ranks[r].waits) return true;
	return false;
}

// enqueue puts an operation on its stream.
static void enqueue(Comm* c, Work* w) {
	Pending p{w->stream, 0};
	w->number = ++c->issued;
	driver().enqueue(w->stream, run_enqueued, w, &p.at);
	{
		std::lock_guard<std::mutex> guard(c->mutex);
		c->pending.push_back(p);
	}
	if (awaited(c)) release(c);
}

// Calls on a communicator that does not block are in progress until they were
// asked about twice. Until then no other work may go on the stream.
static int issue(uintptr_t handle, Kind kind, const void* send, void* receive, u64 count, int type, int reduction, int root, Stream* s) {
	auto c = of(handle);
	if (!c || !width(type) || root < 0 || root >= c->size || reduction < 0 || reduction > Avg) return InvalidArgument;
	if (c->state != Success) return c->state == InProgress ? InvalidUsage : int(c->state);
	if (c->launching) return InvalidUsage;
	u64 n = count * width(type), parts = c->size;
	if (send && !driver().covered(u64(send), kind == ReduceScatter ? n * parts : n)) return InvalidArgument;
	if (receive && !driver().covered(u64(receive), kind == AllGather ? n * parts : n)) return InvalidArgument;
	if (!count) {
		if (awaited(c.get())) release(c.get());
		return Success;
	}
	auto w = new Work{c, kind, (const char*)send, (char*)receive, count, type, reduction, root, 0, s};
	if (c->blocking) {
		enqueue(c.get(), w);
		return Success;
	}
	driver().busy(s, 1);
	c->launching = w;
	c->asked = 0;
	return InProgress;
}

// launched tells whether the operation in progress, if there is one, is on its stream.
static bool launched(Comm* c) {
	if (c->launching && ++c->asked > 1) {
		Work* w = c->launching;
		c->launching = nullptr;
		driver().busy(w->stream, 0);
		enqueue(c, w);
	}
	return !c->launching;
}

// join waits for all ranks and looks whether they fit.
static void join(Comm* c) {
	int fd = borrow(c->id);
	void* at = fd < 0 ? MAP_FAILED : shared(fd, meeting_size);
	if (fd >= 0) close(fd);
	if (at == MAP_FAILED) {
		fail(c, SystemError, "rank 0 is gone");
		return;
	}
	Meeting* m = c->meeting = (Meeting*)at;
	Rank& own = m->ranks[c->rank];
	std::memcpy(own.device, c->device, 16);
	own.version = version();
	own.joined = 1;
	if (!until(c, [=] {
		    for (int r = 0; r < c->size; r++)
			    if (!m->ranks[r].joined) return false;
		    return true;
	    }))
		return;
	const char* share = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
	bool may = share && !std::strcmp(share, "1") && version() >= 23000;
	for (int a = 0; a < c->size; a++) {
		if (m->ranks[a].version != m->ranks[0].version) {
			fail(c, InvalidUsage, "Mismatched NCCL version detected");
			return;
		}
		for (int b = 0; b < a && !may; b++)
			if (!std::memcmp(m->ranks[a].device, m->ranks[b].device, 16)) {
				fail(c, InvalidUsage, "Duplicate GPU detected");
				return;
			}
	}
	c->state = Success;
}

// help joins, and then lets this rank's operations run when another waits for them.
static void help(Comm* c) {
	join(c);
	while (c->meeting && !c->over) {
		u32 heard = c->meeting->bell;
		if (awaited(c)) release(c);
		doze(&c->meeting->bell, heard, 100);
	}
}

static void end(Comm* c) {
	c->over = true;
	if (c->meeting) ring(&c->meeting->bell);
	if (c->helper.joinable()) c->helper.join();
}

#define FAKE(name, ...) extern "C" int name(__VA_ARGS__)

FAKE(ncclGetVersion, int* v) {
	*v = version();
	return Success;
}

struct UniqueId {
	Handle at;
	char rest[64];
};

FAKE(ncclGetUniqueId, UniqueId* id) {
	int fd = anonymous("fakenccl", meeting_size); // open as long as this process: others look for it when they like
	if (fd < 0) return SystemError;
	*id = UniqueId{handle_of(IdMagic, fd, meeting_size, 0), {}};
	return Success;
}

extern "C" const char* ncclGetErrorString(int) { return "an error of the fake NCCL"; }

extern "C" const char* ncclGetLastError(uintptr_t handle) {
	if (auto c = of(handle)) {
		std::lock_guard<std::mutex> guard(c->mutex);
		last_error = c->error;
	}
	return last_error.c_str();
}

struct Config {
	size_t size;
	u32 magic, version;
	int blocking;
};

FAKE(ncclCommInitRankConfig, uintptr_t* handle, int size, UniqueId id, int rank, const Config* config) {
	void* context = nullptr;
	auto c = std::make_shared<Comm>();
	if (!driver().enqueue || driver().current(&context) || !context) return CudaError;
	if (size < 1 || size > Ranks || rank < 0 || rank >= size || id.at.magic != IdMagic || config->magic != 0xcafebeef) return InvalidArgument;
	c->rank = rank;
	c->size = size;
	c->blocking = config->blocking != 0;
	c->id = id.at;
	driver().uuid(c->device, int(uintptr_t(context)) - 1);
	{
		std::lock_guard<std::mutex> guard(big);
		c->number = created++;
		comms.push_back(c);
		*handle = comms.size();
	}
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	c->helper = std::thread([c] { help(c.get()); });
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	if (config->blocking == 0) return InProgress;
	while (c->state == InProgress) usleep(200);
	return c->state;
}

// An operation that is under way when its communicator is finalized is in progress.
FAKE(ncclCommGetAsyncError, uintptr_t handle, int* state) {
	auto c = of(handle);
	if (!c) return InvalidArgument;
	*state = c->state;
	if (*state == Success && !launched(c.get())) *state = InProgress;
	if (*state == Success && c->over && c->done < c->issued) *state = InProgress;
	return Success;
}

FAKE(ncclCommCount, uintptr_t handle, int* n) {
	auto c = of(handle);
	if (!c) return InvalidArgument;
	*n = c->size;
	return Success;
}

FAKE(ncclCommFinalize, uintptr_t handle) {
	auto c = of(handle);
	if (!c) return InvalidArgument;
	if (c->launching) return InvalidUsage;
	release(c.get());
	end(c.get());
	return c->done < c->issued ? InProgress : Success;
}

static int destroy(uintptr_t handle, bool abort) {
	auto c = of(handle);
	if (!c) return InvalidArgument;
	c->aborted = c->aborted || abort;
	if (Work* w = c->launching) {
		driver().busy(w->stream, 0);
		c->launching = nullptr;
		delete w;
	}
	end(c.get());
	std::lock_guard<std::mutex> guard(big);
	comms[handle - 1] = nullptr; // operations that are under way keep it
	return Success;
}

FAKE(ncclCommDestroy, uintptr_t handle) { return destroy(handle, false); }
FAKE(ncclCommAbort, uintptr_t handle) { return destroy(handle, true); }

FAKE(ncclAllReduce, const void* send, void* receive, u64 n, int type, int reduction, uintptr_t c, Stream* s) {
	return issue(c, AllReduce, send, receive, n, type, reduction, 0, s);
}

FAKE(ncclBroadcast, const void* send, void* receive, u64 n, int type, int root, uintptr_t c, Stream* s) {
	return issue(c, Broadcast, send, receive, n, type, 0, root, s);
}

FAKE(ncclAllGather, const void* send, void* receive, u64 n, int type, uintptr_t c, Stream* s) {
	return issue(c, AllGather, send, receive, n, type, 0, 0, s);
}

FAKE(ncclReduceScatter, const void* send, void* receive, u64 n, int type, int reduction, uintptr_t c, Stream* s) {
	return issue(c, ReduceScatter, send, receive, n, type, reduction, 0, s);
}

FAKE(ncclSend, const void* send, u64 n, int type, int peer, uintptr_t c, Stream* s) {
	return issue(c, Send, send, nullptr, n, type, 0, peer, s);
}

FAKE(ncclRecv, void* receive, u64 n, int type, int peer, uintptr_t c, Stream* s) {
	return issue(c, Recv, nullptr, receive, n, type, 0, peer, s);
}

#include "fakenccl.h" // made from the binding: what nobody has asked for yet
