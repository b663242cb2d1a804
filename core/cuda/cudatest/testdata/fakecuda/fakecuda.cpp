// A fake libcuda whose devices are this process's memory and whose kernels are
// those of the fake libnvrtc. What is enqueued on a stream runs as late as CUDA
// allows, when somebody waits for it, so that whoever reads without waiting
// reads what was there before; FAKECUDA_EAGER=1 runs it at once, the other
// extreme. FAKECUDA_DEVICES is how many devices there are, 1 if unset.
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
#include <vector>

typedef unsigned long long Ptr;
typedef unsigned long long u64;

enum { Success = 0, InvalidValue = 1, InvalidContext = 201, NotReady = 600, AlreadyRegistered = 712, NotRegistered = 713, NotSupported = 801 };

struct Stream {
	std::deque<std::function<void()>> queue;
	u64 enqueued = 0, done = 0;
	struct Graph* capture = nullptr; // what is enqueued goes there
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
	while (s->done < to) {
		std::function<void()> op = std::move(s->queue.front());
		s->queue.pop_front();
		op();
		s->done++;
	}
}

static void enqueue(Stream* s, std::function<void()> op) {
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
	if (!current) return InvalidContext

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
	default: *v = 0;
	}
	return Success;
}

FAKE(cuDevicePrimaryCtxRetain, void** c, int d) {
	*c = (void*)(uintptr_t)(d + 1);
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
	advance(s, s->enqueued);
	return Success; // kept: events may name it
}

FAKE(cuStreamSynchronize, Stream* s) {
	ENTER();
	if (s->capture) return fail("cuStreamSynchronize", "the stream is captured");
	advance(s, s->enqueued);
	return Success;
}

FAKE(cuStreamQuery, Stream* s) {
	ENTER();
	return s->done == s->enqueued ? Success : NotReady;
}

FAKE(cuStreamWaitEvent, Stream* s, Event* e, unsigned) {
	ENTER();
	if (!e->stream) return Success;
	Stream* on = e->stream;
	u64 at = e->at;
	enqueue(s, [on, at] { advance(on, at); });
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
	return !e->stream || e->stream->done >= e->at ? Success : NotReady;
}

FAKE(cuEventSynchronize, Event* e) {
	ENTER();
	if (e->stream) advance(e->stream, e->at);
	return Success;
}

FAKE(cuMemAlloc_v2, Ptr* p, size_t n) {
	ENTER();
	void* m = std::aligned_alloc(256, (n + 255) & ~size_t(255));
	std::memset(m, 0xff, n); // NaN in every type
	*p = (Ptr)m;
	memory[*p] = n;
	return Success;
}

FAKE(cuMemFree_v2, Ptr p) {
	ENTER();
	for (Stream* s : streams) advance(s, s->enqueued);
	if (!memory.erase(p)) return fail("cuMemFree", "no allocation");
	std::free((void*)p);
	return Success;
}

FAKE(cuMemGetInfo_v2, size_t* available, size_t* total) {
	*available = *total = size_t(1) << 30;
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
	for (Stream* s : streams) advance(s, s->enqueued);
	return pinned.erase((uintptr_t)m) ? Success : NotRegistered;
}

static int up(const char* call, Ptr to, const void* from, size_t n, Stream* s) {
	ENTER();
	if (!covered(memory, to, n)) return fail(call, "not device memory");
	if (covered(pinned, (uintptr_t)from, n)) {
		enqueue(s, [=] { std::memcpy((void*)to, from, n); });
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
	enqueue(s, [=] { std::memcpy(to, (void*)from, n); });
	if (!covered(pinned, (uintptr_t)to, n)) advance(s, s->enqueued); // and written before it
	return Success;
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
	ENTER();
	if (!gx || !gy || gz != 1 || by != 1 || bz != 1 || shared || bx > 1024 || gy > 65535) return fail("cuLaunchKernel", f->name);
	std::shared_ptr<void*> kept(f->module->keep(f->name, params), [](void** all) {
		for (void** p = all; *p; p++) std::free(*p);
		std::free(all);
	});
	enqueue(s, [=] { f->module->launch(f->name, gx, gy, gz, bx, kept.get()); });
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
	for (Stream* s : streams) advance(s, s->enqueued); // a launched one may be under way
	delete exec;
	return Success;
}

FAKE(cuGraphLaunch, Graph* exec, Stream* s) {
	ENTER();
	for (const auto& op : exec->work) enqueue(s, op);
	return Success;
}

#include "fakecuda.h" // made from the binding: what nobody has asked for yet
