// A fake libcuda whose devices are memory of the processes and whose kernels are
// those of the fake libnvrtc. CUDA_FAKE_DEVICES is how many devices there are, 1
// if unset, of which CUDA_VISIBLE_DEVICES leaves some; CUDA_FAKE_NO_EVENTS takes away events between processes,
// CUDA_FAKE_NO_DESCRIPTORS memory that travels as a descriptor.
#include "streams.h"
#include "share.h"
#include "events.h"
#include "memory.h"
#include <cstring>
#include <dlfcn.h>

struct Module {
	int (*launch)(const char*, unsigned, unsigned, unsigned, unsigned, void**);
	int (*has)(const char*);
	void** (*keep)(const char*, void**);
};

struct Function {
	Module* module;
	const char* name;
};

FAKE(cuInit, unsigned) {
	const char* code = std::getenv("CUDA_FAKE_INIT");
	return code ? std::atoi(code) : Success;
}

FAKE(cuDriverGetVersion, int* v) {
	*v = 12000;
	return Success;
}

// UUIDPrefix begins the UUIDs of all devices, as CUDA_VISIBLE_DEVICES names them; their number follows, from 1.
static const char UUIDPrefix[] = "GPU-00000000-0000-0000-0000-";

// visible are the devices that CUDA_VISIBLE_DEVICES leaves. A device's handle is its number without that.
static std::vector<int> visible() {
	const char* n = std::getenv("CUDA_FAKE_DEVICES");
	int all = n ? std::min(std::atoi(n), int(Devices)) : 1;
	std::vector<int> list;
	const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
	if (!names)
		for (int d = 0; d < all; d++) list.push_back(d);
	for (char* end; names && *names; names = end + (*end == ',')) {
		const bool uuid = std::strncmp(names, UUIDPrefix, sizeof UUIDPrefix - 1) == 0;
		const char* number = uuid ? names + sizeof UUIDPrefix - 1 : names;
		long d = std::strtol(number, &end, uuid ? 16 : 10) - uuid;
		if (end == number || d < 0 || d >= all) break; // CUDA sees none behind one that is not there
		list.push_back(d);
	}
	return list;
}

FAKE(cuDeviceGetCount, int* n) {
	*n = visible().size();
	return Success;
}

FAKE(cuDeviceGet, int* d, int ordinal) {
	auto list = visible();
	if (ordinal < 0 || ordinal >= int(list.size())) return InvalidDevice;
	*d = list[ordinal];
	return Success;
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

FAKE(cuDeviceGetPCIBusId, char* id, int n, int d) {
	std::snprintf(id, n, "0000:%02x:00.0", d + 1);
	return Success;
}

FAKE(cuDeviceTotalMem_v2, size_t* n, int) {
	*n = capacity();
	return Success;
}

FAKE(cuDeviceGetAttribute, int* v, int attribute, int) {
	switch (attribute) {
	case 75: *v = 9; break;
	case 16: *v = 4; break;
	case 20: *v = set("CUDA_FAKE_EXCLUSIVE") ? 3 : 0; break; // compute mode
	case 99: *v = 1; break;
	case 102: // virtual memory
	case 103: // that travels as a descriptor
	case 110: *v = !set("CUDA_FAKE_NO_DESCRIPTORS"); break;
	case 125: *v = !set("CUDA_FAKE_NO_EVENTS"); break; // events cross processes
	default: *v = 0;
	}
	return Success;
}

FAKE(cuDevicePrimaryCtxRetain, void** c, int d) {
	Lock lock(big);
	if (d < 0 || d >= Devices) return InvalidDevice;
	if (set("CUDA_FAKE_EXCLUSIVE")) return 46; // DEVICE_UNAVAILABLE: another process has it
	if (!contexts[d]++) charge(d, context_size);
	whole(d);
	*c = (void*)(uintptr_t)(d + 1);
	return Success;
}

FAKE(cuDevicePrimaryCtxRelease_v2, int d) {
	Lock lock(big);
	if (d < 0 || d >= Devices || !contexts[d]) return InvalidContext;
	if (!--contexts[d]) charge(d, -(long long)context_size);
	return Success;
}

FAKE(cuCtxSetCurrent, void* c) {
	current = c;
	return Success;
}

FAKE(cuCtxGetCurrent, void** c) {
	*c = current;
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

static std::mutex& processor = lasting<std::mutex>(); // one kernel runs at a time: the emulated threads' state is global

FAKE(cuLaunchKernel, Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, Stream* s, void** params, void**) {
	blocked(f->name);
	ENTER();
	if (s->busy) return NotPermitted;
	if (!gx || !gy || gz != 1 || by != 1 || bz != 1 || shared || bx > 1024 || gy > 65535) return fail("cuLaunchKernel", f->name);
	std::shared_ptr<void*> kept(f->module->keep(f->name, params), [](void** all) {
		for (void** p = all; *p; p++) std::free(*p);
		std::free(all);
	});
	auto launch = f->module->launch;
	const char* name = f->name;
	enqueue(lock, s, [=, at = device()] {
		if (spoiled(s, name, at)) return;
		std::lock_guard<std::mutex> guard(processor);
		launch(name, gx, gy, gz, bx, kept.get());
	});
	return Success;
}

// fakecuda_covered tells NCCL whether n bytes lie in one piece of device memory.
extern "C" int fakecuda_covered(Ptr at, size_t n) {
	Lock lock(big);
	return covered(memory, at, n);
}

#include "fakecuda.h" // made from the binding: what nobody has asked for yet
