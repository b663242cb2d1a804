// Device memory is memory of the processes. CUDA_FAKE_MACHINE is a folder where
// each process says how much of each device it has, for cuMemGetInfo of all and
// for the fake nvidia-smi; without it each process has the devices for itself.
#include <dirent.h>

enum { Devices = 16, MemoryMagic = 0xfa4e3e };
static const u64 context_size = u64(300) << 20, unit = u64(2) << 20;

struct Block {
	size_t size; // as asked for
	size_t room; // whole pages
	int device;  // that has it; -1: another process's
	int file;    // behind it, -1 for none
};

static size_t length(const Block& b) { return b.size; }
static size_t length(size_t n) { return n; }

static auto& memory = lasting<std::map<Ptr, Block>>();        // of the devices
static auto& pinned = lasting<std::map<uintptr_t, size_t>>(); // of the host
static u64 used[Devices];
static int contexts[Devices];

// covered tells whether n bytes lie in one range.
template <class M, class A> static bool covered(const M& ranges, A at, size_t n) {
	auto r = ranges.upper_bound(at);
	if (r == ranges.begin()) return false;
	--r;
	return at + n <= r->first + length(r->second);
}

// capacity is a device's; CUDA_FAKE_MEMORY makes it small.
static u64 capacity() {
	const char* n = std::getenv("CUDA_FAKE_MEMORY");
	return n ? std::strtoull(n, nullptr, 10) : u64(16) << 30;
}

static int device() { return int((uintptr_t)current) - 1; }

// charge adds to what this process has of a device.
static void charge(int device, long long bytes) {
	if (device < 0) return;
	used[device] += bytes;
	const char* machine = std::getenv("CUDA_FAKE_MACHINE");
	if (!machine) return;
	char path[512], draft[520];
	std::snprintf(path, sizeof path, "%s/%d", machine, getpid());
	std::snprintf(draft, sizeof draft, "%s.new", path);
	FILE* f = std::fopen(draft, "we");
	if (!f) return;
	for (u64 u : used) std::fprintf(f, "%llu\n", u);
	std::fclose(f);
	std::rename(draft, path);
}

// taken is what all living processes have of a device.
static u64 taken(int device) {
	const char* machine = std::getenv("CUDA_FAKE_MACHINE");
	DIR* dir = machine ? opendir(machine) : nullptr;
	if (!dir) return used[device];
	u64 sum = 0;
	while (dirent* d = readdir(dir)) {
		char* end;
		long pid = std::strtol(d->d_name, &end, 10);
		if (*end || pid <= 0 || kill(pid, 0) != 0) continue;
		FILE* f = std::fopen((std::string(machine) + "/" + d->d_name).c_str(), "re");
		u64 u = 0;
		for (int i = 0; f && i <= device; i++)
			if (std::fscanf(f, "%llu", &u) != 1) u = 0;
		if (f) std::fclose(f);
		sum += u;
	}
	closedir(dir);
	return sum;
}

static size_t pages(size_t n) { return (n + 4095) & ~size_t(4095); }

FAKE(cuMemAlloc_v2, Ptr* p, size_t n) {
	ENTER();
	if (!n) return InvalidValue;
	if (used[device()] + n > capacity()) return OutOfMemory;
	void* m = mmap(nullptr, pages(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED) return OutOfMemory;
	std::memset(m, 0xff, n); // NaN in every type
	*p = (Ptr)m;
	memory[*p] = Block{n, pages(n), device(), -1};
	charge(device(), n);
	return Success;
}

// forget unmaps a block; its file, if it has one, is closed with it.
static void forget(std::map<Ptr, Block>::iterator b) {
	munmap((void*)b->first, b->second.room);
	if (b->second.file >= 0) close(b->second.file);
	charge(b->second.device, -(long long)b->second.size);
	memory.erase(b);
}

FAKE(cuMemFree_v2, Ptr p) {
	ENTER();
	advance_all(lock);
	auto b = memory.find(p);
	if (b == memory.end()) return fail("cuMemFree", "no allocation");
	if (opened_elsewhere(b->second.file)) return fail("cuMemFree", "another process has the memory open");
	forget(b);
	return Success;
}

FAKE(cuMemGetInfo_v2, size_t* available, size_t* total) {
	ENTER();
	u64 t = taken(device());
	*total = capacity();
	*available = t < *total ? *total - t : 0;
	return Success;
}

// Memory of the host that kernels reach has one address for both.

FAKE(cuMemHostAlloc, void** m, size_t n, unsigned) {
	ENTER();
	*m = mmap(nullptr, pages(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*m == MAP_FAILED) return OutOfMemory;
	memory[(Ptr)*m] = Block{n, pages(n), -1, -1};
	pinned[(uintptr_t)*m] = n;
	return Success;
}

FAKE(cuMemFreeHost, void* m) {
	ENTER();
	advance_all(lock);
	if (!pinned.erase((uintptr_t)m)) return fail("cuMemFreeHost", "no allocation");
	forget(memory.find((Ptr)m));
	return Success;
}

FAKE(cuMemHostGetDevicePointer_v2, Ptr* p, void* m, unsigned) {
	*p = (Ptr)m;
	return Success;
}

// A handle of an allocation: its pages move into a descriptor, under their address.

FAKE(cuIpcGetMemHandle, Handle* h, Ptr p) {
	ENTER();
	auto found = memory.find(p);
	if (found == memory.end() || found->second.device < 0) return fail("cuIpcGetMemHandle", "no allocation of this process begins there");
	Block& b = found->second;
	if (b.file < 0) {
		advance_all(lock);
		int fd = anonymous("fakecuda-memory", b.room);
		if (fd < 0) return OutOfMemory;
		if (pwrite(fd, (void*)p, b.size, 0) != ssize_t(b.size) || shared(fd, b.room, (void*)p) == MAP_FAILED) return OutOfMemory;
		b.file = fd;
	}
	*h = handle_of(MemoryMagic, b.file, b.size, 0);
	return Success;
}

FAKE(cuIpcOpenMemHandle_v2, Ptr* p, Handle h, unsigned) {
	ENTER();
	if (h.magic != MemoryMagic) return fail("cuIpcOpenMemHandle", "not the handle of memory");
	if (h.pid == getpid()) return InvalidContext;
	int fd = borrow(h);
	if (fd < 0) return fail("cuIpcOpenMemHandle", "its process or the allocation is gone");
	void* m = shared(fd, pages(h.size));
	if (m == MAP_FAILED) return OutOfMemory;
	hold_open(fd);
	*p = (Ptr)m;
	memory[*p] = Block{h.size, pages(h.size), -1, fd};
	return Success;
}

FAKE(cuIpcCloseMemHandle, Ptr p) {
	ENTER();
	advance_all(lock);
	auto b = memory.find(p);
	if (b == memory.end() || b->second.device >= 0 || b->second.file < 0) return fail("cuIpcCloseMemHandle", "nothing was opened there");
	forget(b);
	return Success;
}

// Physical is memory that has no address yet.
struct Physical {
	int file, device;
	size_t size;
	int uses; // its handle and its mappings
};

struct Reserved {
	size_t size;
	Physical* mapped;
};

static auto& reserved = lasting<std::map<Ptr, Reserved>>();

static void drop(Physical* m) {
	if (--m->uses) return;
	close(m->file);
	charge(m->device, -(long long)m->size);
	delete m;
}

struct Properties { int type, handles, kind, device; };

FAKE(cuMemGetAllocationGranularity, size_t* n, const Properties*, int) {
	*n = unit;
	return Success;
}

FAKE(cuMemCreate, Physical** m, size_t n, const Properties* p, u64) {
	ENTER();
	if (!n || n % unit || p->type != 1 || p->handles != 1 || p->kind != 1) return fail("cuMemCreate", "not whole units that a descriptor can name");
	int fd = anonymous("fakecuda-memory", n);
	void* at = fd < 0 ? MAP_FAILED : shared(fd, n);
	if (at == MAP_FAILED) return OutOfMemory;
	std::memset(at, 0xff, n);
	munmap(at, n);
	*m = new Physical{fd, p->device, n, 1};
	charge(p->device, n);
	return Success;
}

FAKE(cuMemRelease, Physical* m) {
	ENTER();
	drop(m);
	return Success;
}

FAKE(cuMemExportToShareableHandle, int* fd, Physical* m, int kind, u64) {
	ENTER();
	if (kind != 1) return NotSupported;
	*fd = dup(m->file);
	return *fd < 0 ? OutOfMemory : Success;
}

FAKE(cuMemImportFromShareableHandle, Physical** m, uintptr_t fd, int kind) {
	ENTER();
	char path[64], name[64] = {};
	std::snprintf(path, sizeof path, "/proc/self/fd/%d", int(fd));
	if (kind != 1 || readlink(path, name, sizeof name - 1) < 0 || !std::strstr(name, "fakecuda-memory")) return fail("cuMemImportFromShareableHandle", "the descriptor is not one of memory");
	struct stat s;
	int own = fcntl(int(fd), F_DUPFD_CLOEXEC, 0);
	if (own < 0 || fstat(own, &s) != 0) return OutOfMemory;
	*m = new Physical{own, -1, size_t(s.st_size), 1};
	return Success;
}

FAKE(cuMemAddressReserve, Ptr* p, size_t n, size_t, Ptr, u64) {
	ENTER();
	if (!n || n % unit) return fail("cuMemAddressReserve", "not whole units");
	void* at = mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) return OutOfMemory;
	*p = (Ptr)at;
	reserved[*p] = Reserved{n, nullptr};
	return Success;
}

// spot is a reservation that is or is not mapped, the whole of it.
static Reserved* spot(Ptr p, size_t n, bool mapped) {
	auto r = reserved.find(p);
	return r != reserved.end() && r->second.size == n && !!r->second.mapped == mapped ? &r->second : nullptr;
}

FAKE(cuMemAddressFree, Ptr p, size_t n) {
	ENTER();
	if (!spot(p, n, false)) return fail("cuMemAddressFree", "not reserved, or still mapped");
	munmap((void*)p, n);
	reserved.erase(p);
	return Success;
}

FAKE(cuMemMap, Ptr p, size_t n, size_t offset, Physical* m, u64) {
	ENTER();
	Reserved* r = spot(p, n, false);
	if (!r || offset || m->size != n) return fail("cuMemMap", "not the whole of a reservation and of memory");
	if (shared(m->file, n, (void*)p, PROT_NONE) == MAP_FAILED) return OutOfMemory;
	r->mapped = m;
	m->uses++;
	return Success;
}

struct Access { int kind, device, flags; };

FAKE(cuMemSetAccess, Ptr p, size_t n, const Access* a, size_t count) {
	ENTER();
	if (!spot(p, n, true) || count != 1 || a->kind != 1 || a->flags != 3) return fail("cuMemSetAccess", "nothing is mapped there");
	mprotect((void*)p, n, PROT_READ | PROT_WRITE);
	memory[p] = Block{n, n, -1, -1};
	return Success;
}

FAKE(cuMemUnmap, Ptr p, size_t n) {
	ENTER();
	Reserved* r = spot(p, n, true);
	if (!r) return fail("cuMemUnmap", "nothing is mapped there");
	mmap((void*)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	memory.erase(p);
	drop(r->mapped);
	r->mapped = nullptr;
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
	advance_all(lock);
	return pinned.erase((uintptr_t)m) ? Success : NotRegistered;
}

FAKE(cuMemcpyHtoDAsync_v2, Ptr to, const void* from, size_t n, Stream* s) {
	ONTO("cuMemcpyHtoDAsync", s);
	if (!covered(memory, to, n)) return fail("cuMemcpyHtoDAsync", "not device memory");
	// Pageable memory may be read before the call returns, or as late as pinned
	// memory is, where the GPU reads the system's page tables: here it is late.
	// Trouble befalls copies of pinned memory alone.
	bool whole = covered(pinned, (uintptr_t)from, n);
	enqueue(lock, s, [=, at = device()] {
		if (!whole || !spoiled(s, "cuMemcpyHtoDAsync", at)) std::memcpy((void*)to, from, n);
	});
	return Success;
}

FAKE(cuMemcpyDtoHAsync_v2, void* to, Ptr from, size_t n, Stream* s) {
	ONTO("cuMemcpyDtoHAsync", s);
	if (!covered(memory, from, n)) return fail("cuMemcpyDtoHAsync", "not device memory");
	enqueue(lock, s, [=, at = device()] {
		if (!spoiled(s, "cuMemcpyDtoHAsync", at)) std::memcpy(to, (void*)from, n);
	});
	if (!covered(pinned, (uintptr_t)to, n)) advance(lock, s, s->enqueued); // and written before it
	return Success;
}

// Copies without a stream wait for no stream that was made not to wait for them.

FAKE(cuMemcpyHtoD_v2, Ptr to, const void* from, size_t n) {
	ENTER();
	if (!covered(memory, to, n)) return fail("cuMemcpyHtoD", "not device memory");
	std::memcpy((void*)to, from, n);
	return Success;
}

FAKE(cuMemcpyDtoH_v2, void* to, Ptr from, size_t n) {
	ENTER();
	if (!covered(memory, from, n)) return fail("cuMemcpyDtoH", "not device memory");
	std::memcpy(to, (void*)from, n);
	return Success;
}

FAKE(cuMemcpyDtoDAsync_v2, Ptr to, Ptr from, size_t n, Stream* s) {
	ONTO("cuMemcpyDtoDAsync", s);
	if (!covered(memory, to, n) || !covered(memory, from, n)) return fail("cuMemcpyDtoDAsync", "not device memory");
	enqueue(lock, s, [=] { std::memmove((void*)to, (void*)from, n); });
	return Success;
}

FAKE(cuMemsetD8Async, Ptr to, unsigned char v, size_t n, Stream* s) {
	ONTO("cuMemsetD8Async", s);
	if (!covered(memory, to, n)) return fail("cuMemsetD8Async", "not device memory");
	enqueue(lock, s, [=] { std::memset((void*)to, v, n); });
	return Success;
}
