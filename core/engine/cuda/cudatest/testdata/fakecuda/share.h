// What processes share: descriptors of memory without a name, which nothing has
// to clean up, and which others open through /proc, as user and PID namespace
// allow. That is also all that NVIDIA's IPC handles can do.
#include <atomic>
#include <climits>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Handle names a descriptor of a process, and something in its memory.
struct Handle {
	u32 magic;
	int pid, fd;
	u64 inode, size, which;
	char rest[24];
};
static_assert(sizeof(Handle) == 64, "as CUipcMemHandle");

static int anonymous(const char* name, size_t size) {
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, size) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static u64 inode(int fd) {
	struct stat s;
	return fstat(fd, &s) == 0 ? s.st_ino : 0;
}

static Handle handle_of(u32 magic, int fd, u64 size, u64 which) {
	Handle h = {};
	h.magic = magic;
	h.pid = getpid();
	h.fd = fd;
	h.inode = inode(fd);
	h.size = size;
	h.which = which;
	return h;
}

// borrow opens another process's descriptor; -1 if it is gone.
static int borrow(const Handle& h) {
	char path[64];
	std::snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && inode(fd) != h.inode) {
		close(fd);
		return -1;
	}
	return fd;
}

static void* shared(int fd, size_t size, void* at = nullptr, int access = PROT_READ | PROT_WRITE) {
	return mmap(at, size, access, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
}

// hold_open says that a process has memory of another's open, by a lock that ends with its descriptor.
static void hold_open(int fd) {
	struct flock l = {};
	l.l_type = F_RDLCK;
	l.l_whence = SEEK_SET;
	fcntl(fd, F_OFD_SETLK, &l);
}

// opened_elsewhere tells whether another process has the memory of a descriptor open.
static bool opened_elsewhere(int fd) {
	struct flock l = {};
	l.l_type = F_WRLCK;
	l.l_whence = SEEK_SET;
	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

// doze sleeps while the word is what was seen, and at most some milliseconds.
static void doze(std::atomic<u32>* word, u32 seen, int ms) {
	timespec most = {ms / 1000, ms % 1000 * 1000000L};
	syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, nullptr, 0);
}

static void wake(std::atomic<u32>* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

static void ring(std::atomic<u32>* bell) {
	(*bell)++;
	wake(bell);
}
