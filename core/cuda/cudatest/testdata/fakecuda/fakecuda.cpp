// A fake libcuda whose devices are this process's memory and whose kernels are
// those of the fake libnvrtc. What is enqueued on a stream runs as late as CUDA
// allows, when somebody waits for it, so that whoever reads without waiting
// reads what was there before; FAKECUDA_EAGER=1 runs it at once, the other
// extreme. FAKECUDA_DEVICES is how many devices there are, 1 if unset.
// FAKECUDA_NULL=1 does nothing of what is enqueued, to time who enqueues;
// FAKECUDA_MEMORY is the bytes of a device; FAKECUDA_TROUBLE see trouble.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <vector>

typedef unsigned long long Ptr;
typedef unsigned long long u64;

enum { Success = 0, InvalidValue = 1, OutOfMemory = 2, InvalidContext = 201, NotReady = 600, AlreadyRegistered = 712, NotRegistered = 713, NotSupported = 801 };

struct Stream {
	std::deque<std::function<void()>> queue;
	u64 enqueued = 0, done = 0;
	struct Graph* capture = nullptr; // what is enqueued goes there
	bool stuck = false;              // at work that never ends
};

// Graph is captured work; ready ones are copies of it.
struct Graph {
	std::vector<std::function<void()>> work;
};

struct Event {
	Stream* stream = nullptr; // null: never recorded
	u64 at = 0;
};

struct Module {
	int (*launch)(const char*, unsigned, unsigned, unsigned, unsigned, void**);
	int (*has)(const char*);
	void** (*keep)(const char*, void**);
};

struct Function {
	Module* module;
	const char* name;
};

static std::recursive_mutex big;
static std::map<Ptr, size_t> memory;        // of the devices
static std::map<uintptr_t, size_t> pinned;  // of the host
static std::vector<Stream*> streams;
static thread_local void* current;

static bool eager() {
	const char* on = std::getenv("FAKECUDA_EAGER");
	return on && *on;
}

static int fail(const char* call, const char* what) {
	std::fprintf(stderr, "fakecuda: %s: %s\n", call, what);
	return InvalidValue;
}

// covered tells whether n bytes lie in one range.
template <class M, class A> static bool covered(const M& ranges, A at, size_t n) {
	auto r = ranges.upper_bound(at);
	if (r == ranges.begin()) return false;
	--r;
	return at + n <= r->first + r->second;
}

static void advance(Stream* s, u64 to) {
	while (s->done < to && !s->stuck) {
		std::function<void()> op = std::move(s->queue.front());
		s->queue.pop_front();
		op();
		if (!s->stuck) s->done++;
	}
}

// finish is what a call does that waits for a stream. Where CUDA would never
// come back, it says so.
static int finish(const char* call, Stream* s) {
	advance(s, s->enqueued);
	return s->stuck ? fail(call, "waits for work that never ends") : Success;
}

static int finish_all(const char* call) {
	int code = Success;
	for (Stream* s : streams)
		if (int c = finish(call, s)) code = c;
	return code;
}

static int faulted[64]; // by device: the code that every call returns
static int runs;        // of what has trouble

// trouble befalls the nth run of a kernel, or of a copy or a fill by the name of
// its function: FAKECUDA_TROUBLE="HOW NAME NTH DEVICE", 1 and any device if left
// out. HOW is "hang", work that never ends, or the code of a fault that every
// call returns from then on; "block" is a call that never returns.
static bool trouble(const char* how, const char* name) {
	char kind[16] = "", of[64] = "";
	int nth = 1, device = -1;
	const char* text = std::getenv("FAKECUDA_TROUBLE");
	if (!text || std::sscanf(text, "%15s %63s %d %d", kind, of, &nth, &device) < 2) return false;
	if (std::strcmp(of, name) || (how ? std::strcmp(how, kind) : !std::strcmp(kind, "block"))) return false;
	return (device < 0 || (uintptr_t)current == (uintptr_t)device + 1) && ++runs == nth;
}

// spoiled is trouble with work whose turn has come.
static bool spoiled(Stream* s, const char* name) {
	if (!trouble(nullptr, name)) return false;
	int code = std::atoi(std::getenv("FAKECUDA_TROUBLE"));
	if (code)
		faulted[(uintptr_t)current - 1] = code;
	else
		s->stuck = true;
	return true;
}

static void block(const char* name) {
	while (trouble("block", name))
		for (;;) pause();
}

static void enqueue(Stream* s, std::function<void()> op) {
	static const bool null = std::getenv("FAKECUDA_NULL");
	if (null && !s->capture) return;
	if (s->capture) {
		s->capture->work.push_back(std::move(op));
		return;
	}
	s->queue.push_back(std::move(op));
	s->enqueued++;
	if (eager()) advance(s, s->enqueued);
}

#define FAKE(name, ...) extern "C" int name(__VA_ARGS__)
#define ENTER() \
	std::lock_guard<std::recursive_mutex> guard(big); \
	if (!current) return InvalidContext; \
	if (int code = faulted[(uintptr_t)current - 1]) return code

// told is the answer of a query for work that is under way: a fault of it is known at once.
static int told() {
	int code = faulted[(uintptr_t)current - 1];
	return code ? code : NotReady;
}

FAKE(cuInit, unsigned) { return Success; }

FAKE(cuDriverGetVersion, int* v) {
	*v = 12000;
	return Success;
}

static int devices() {
	const char* n = std::getenv("FAKECUDA_DEVICES");
	return n ? std::atoi(n) : 1;
}

FAKE(cuDeviceGetCount, int* n) {
	*n = devices();
	return Success;
}

FAKE(cuDeviceGet, int* d, int ordinal) {
	*d = ordinal;
	return ordinal < devices() ? Success : 101;
}

FAKE(cuDeviceGetName, char* name, int n, int) {
	std::snprintf(name, n, "a fake GPU");
	return Success;
}

FAKE(cuDeviceGetUuid_v2, unsigned char* id, int d) {
	std::memset(id, 0, 16);
	id[15] = d + 1;
	return Success;
}

FAKE(cuDeviceTotalMem_v2, size_t* n, int) {
	*n = size_t(1) << 30;
	return Success;
}

FAKE(cuDeviceGetAttribute, int* v, int attribute, int) {
	switch (attribute) {
	case 75: *v = 9; break;
	case 16: *v = 4; break;
	case 99: *v = 1; break;
	case 125: *v = !std::getenv("FAKECUDA_NO_EVENTS"); break; // events cross processes
	default: *v = 0;
	}
	return Success;
}

FAKE(cuDevicePrimaryCtxRetain, void** c, int d) {
	*c = (void*)(uintptr_t)(d + 1);
	std::lock_guard<std::recursive_mutex> guard(big); // who opens a device anew finds it whole
	faulted[d] = runs = 0;
	streams.erase(std::remove_if(streams.begin(), streams.end(), [](Stream* s) { return s->stuck; }), streams.end());
	return Success;
}

FAKE(cuDevicePrimaryCtxRelease_v2, int) { return Success; }

FAKE(cuCtxSetCurrent, void* c) {
	current = c;
	return Success;
}

FAKE(cuCtxGetCurrent, void** c) {
	*c = current;
	return Success;
}

FAKE(cuStreamCreate, Stream** s, unsigned) {
	ENTER();
	streams.push_back(*s = new Stream);
	return Success;
}

FAKE(cuStreamCreateWithPriority, Stream** s, unsigned flags, int) { return cuStreamCreate(s, flags); }

FAKE(cuStreamDestroy_v2, Stream* s) {
	ENTER();
	return finish("cuStreamDestroy", s); // kept: events may name it
}

FAKE(cuStreamSynchronize, Stream* s) {
	ENTER();
	if (s->capture) return fail("cuStreamSynchronize", "the stream is captured");
	return finish("cuStreamSynchronize", s);
}

FAKE(cuStreamQuery, Stream* s) {
	ENTER();
	if (s->done == s->enqueued) return Success;
	advance(s, s->done + 1); // who asks again and again waits, too
	return told();
}

FAKE(cuStreamWaitEvent, Stream* s, Event* e, unsigned) {
	ENTER();
	if (!e->stream) return Success;
	Stream* on = e->stream;
	u64 at = e->at;
	enqueue(s, [=] {
		advance(on, at);
		s->stuck = on->done < at;
	});
	return Success;
}

FAKE(cuEventCreate, Event** e, unsigned) {
	ENTER();
	*e = new Event;
	return Success;
}

FAKE(cuEventDestroy_v2, Event* e) {
	ENTER();
	delete e;
	return Success;
}

FAKE(cuEventRecord, Event* e, Stream* s) {
	ENTER();
	e->stream = s;
	e->at = s->enqueued;
	return Success;
}

FAKE(cuEventQuery, Event* e) {
	ENTER();
	if (!e->stream || e->stream->done >= e->at) return Success;
	advance(e->stream, e->stream->done + 1); // as cuStreamQuery
	return told();
}

FAKE(cuEventSynchronize, Event* e) {
	ENTER();
	if (!e->stream) return Success;
	advance(e->stream, e->at);
	return e->stream->stuck ? fail("cuEventSynchronize", "waits for work that never ends") : Success;
}

static size_t used;

static size_t whole() {
	const char* n = std::getenv("FAKECUDA_MEMORY");
	return n ? std::strtoull(n, nullptr, 10) : size_t(1) << 30;
}

FAKE(cuMemAlloc_v2, Ptr* p, size_t n) {
	ENTER();
	if (used + n > whole()) return OutOfMemory;
	used += n;
	void* m = std::aligned_alloc(256, (n + 255) & ~size_t(255));
	std::memset(m, 0xff, n); // NaN in every type
	*p = (Ptr)m;
	memory[*p] = n;
	return Success;
}

FAKE(cuMemFree_v2, Ptr p) {
	ENTER();
	if (int code = finish_all("cuMemFree")) return code;
	auto m = memory.find(p);
	if (m == memory.end()) return fail("cuMemFree", "no allocation");
	used -= m->second;
	memory.erase(m);
	std::free((void*)p);
	return Success;
}

FAKE(cuMemGetInfo_v2, size_t* available, size_t* total) {
	ENTER();
	*total = whole();
	*available = whole() - used;
	return Success;
}

// Memory of the host that kernels reach has one address for both.
FAKE(cuMemHostAlloc, void** m, size_t n, unsigned) {
	ENTER();
	*m = std::aligned_alloc(4096, (n + 4095) & ~size_t(4095));
	memory[(Ptr)*m] = pinned[(uintptr_t)*m] = n;
	return Success;
}

FAKE(cuMemFreeHost, void* m) {
	ENTER();
	if (int code = finish_all("cuMemFreeHost")) return code;
	if (!pinned.erase((uintptr_t)m)) return fail("cuMemFreeHost", "no allocation");
	memory.erase((Ptr)m);
	std::free(m);
	return Success;
}

FAKE(cuMemHostGetDevicePointer_v2, Ptr* p, void* m, unsigned) {
	*p = (Ptr)m;
	return Success;
}

FAKE(cuMemHostRegister_v2, void* m, size_t n, unsigned) {
	ENTER();
	uintptr_t at = (uintptr_t)m;
	if (at % 4096) return fail("cuMemHostRegister", "not whole pages");
	auto next = pinned.lower_bound(at);
	if (next != pinned.end() && next->first < at + n) return AlreadyRegistered;
	if (next != pinned.begin() && (--next)->first + next->second > at) return AlreadyRegistered;
	pinned[at] = n;
	return Success;
}

FAKE(cuMemHostUnregister, void* m) {
	ENTER();
	if (int code = finish_all("cuMemHostUnregister")) return code;
	return pinned.erase((uintptr_t)m) ? Success : NotRegistered;
}

static int up(const char* call, Ptr to, const void* from, size_t n, Stream* s) {
	ENTER();
	if (!covered(memory, to, n)) return fail(call, "not device memory");
	if (covered(pinned, (uintptr_t)from, n)) {
		enqueue(s, [=] {
			if (!spoiled(s, call)) std::memcpy((void*)to, from, n);
		});
		return Success;
	}
	std::vector<char> staged((const char*)from, (const char*)from + n); // pageable memory is read before the call returns
	enqueue(s, [to, staged, n] { std::memcpy((void*)to, staged.data(), n); });
	return Success;
}

FAKE(cuMemcpyHtoDAsync_v2, Ptr to, const void* from, size_t n, Stream* s) { return up("cuMemcpyHtoDAsync", to, from, n, s); }

FAKE(cuMemcpyDtoHAsync_v2, void* to, Ptr from, size_t n, Stream* s) {
	ENTER();
	if (!covered(memory, from, n)) return fail("cuMemcpyDtoHAsync", "not device memory");
	enqueue(s, [=] {
		if (!spoiled(s, "cuMemcpyDtoHAsync")) std::memcpy(to, (void*)from, n);
	});
	return covered(pinned, (uintptr_t)to, n) ? Success : finish("cuMemcpyDtoHAsync", s); // pageable memory is written before it
}

FAKE(cuMemcpyDtoDAsync_v2, Ptr to, Ptr from, size_t n, Stream* s) {
	ENTER();
	if (!covered(memory, to, n) || !covered(memory, from, n)) return fail("cuMemcpyDtoDAsync", "not device memory");
	enqueue(s, [=] { std::memmove((void*)to, (void*)from, n); });
	return Success;
}

FAKE(cuMemsetD8Async, Ptr to, unsigned char v, size_t n, Stream* s) {
	ENTER();
	if (!covered(memory, to, n)) return fail("cuMemsetD8Async", "not device memory");
	enqueue(s, [=] { std::memset((void*)to, v, n); });
	return Success;
}

FAKE(cuModuleLoadData, Module** m, const char* image) {
	ENTER();
	void* lib = dlopen(image, RTLD_NOW | RTLD_LOCAL);
	if (!lib) return fail("cuModuleLoadData", dlerror());
	*m = new Module;
	*(void**)&(*m)->launch = dlsym(lib, "emulator_launch");
	*(void**)&(*m)->has = dlsym(lib, "emulator_has");
	*(void**)&(*m)->keep = dlsym(lib, "emulator_keep");
	return Success;
}

FAKE(cuModuleUnload, Module* m) {
	delete m; // the library stays: it has running threads' stacks
	return Success;
}

FAKE(cuModuleGetFunction, Function** f, Module* m, const char* name) {
	ENTER();
	if (m->has(name)) return 500; // NOT_FOUND
	*f = new Function{m, strdup(name)};
	return Success;
}

FAKE(cuLaunchKernel, Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream* s, void** params, void**) {
	block(f->name);
	ENTER();
	if (!gx || !gy || gz != 1 || by != 1 || bz != 1 || shared || bx > 1024 || gy > 65535) return fail("cuLaunchKernel", f->name);
	std::shared_ptr<void*> kept(f->module->keep(f->name, params), [](void** all) {
		for (void** p = all; *p; p++) std::free(*p);
		std::free(all);
	});
	enqueue(s, [=] {
		if (!spoiled(s, f->name)) f->module->launch(f->name, gx, gy, gz, bx, kept.get());
	});
	return Success;
}

FAKE(cuStreamBeginCapture_v2, Stream* s, int) {
	ENTER();
	if (s->capture) return fail("cuStreamBeginCapture", "the stream is captured already");
	s->capture = new Graph;
	return Success;
}

FAKE(cuStreamEndCapture, Stream* s, Graph** g) {
	ENTER();
	*g = s->capture;
	s->capture = nullptr;
	return *g ? Success : InvalidValue;
}

FAKE(cuGraphInstantiateWithFlags, Graph** exec, Graph* g, u64) {
	ENTER();
	*exec = new Graph(*g);
	return Success;
}

FAKE(cuGraphDestroy, Graph* g) {
	delete g;
	return Success;
}

FAKE(cuGraphExecDestroy, Graph* exec) {
	ENTER();
	if (int code = finish_all("cuGraphExecDestroy")) return code; // a launched one may be under way
	delete exec;
	return Success;
}

FAKE(cuGraphLaunch, Graph* exec, Stream* s) {
	ENTER();
	for (const auto& op : exec->work) enqueue(s, op);
	return Success;
}

#include "fakecuda.h" // made from the binding: what nobody has asked for yet
