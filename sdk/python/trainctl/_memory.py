"""Shared memory: arenas that the host sends, and the futexes and barriers of this system."""

import ctypes
import ctypes.util
import fcntl
import mmap
import os
import platform
import sys
import threading
import time

from ._errors import protocol_error

_GET_SEALS, _SEAL_SHRINK = 1034, 0x0002  # include/uapi/linux/fcntl.h
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1  # without FUTEX_PRIVATE_FLAG: two processes share the word
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}.get(platform.machine())
_LINUX = sys.platform == "linux"
_LIBC = ctypes.CDLL(None, use_errno=True)

HAS_FUTEX = _LINUX and _FUTEX is not None


class _Timespec(ctypes.Structure):
    _fields_ = [("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long)]


_futex = ctypes.CDLL(None).syscall  # a function of its own: argument types hold for every call
_futex.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
_wake = ctypes.PyDLL(None).syscall  # keeps the interpreter's lock: a wake-up does not wait
_wake.argtypes = _futex.argtypes[:4]  # all that FUTEX_WAKE reads


def futex_wait(address: int, value: int, seconds: float):
    """Sleeps while the word has the value, at most for a time. It may return early."""
    limit = _Timespec(int(seconds), int(seconds % 1 * 1e9))
    _futex(_FUTEX, address, _FUTEX_WAIT, value, ctypes.addressof(limit), None, 0)


def futex_wake(address: int):
    """Wakes one sleeper. The system call is also a full memory barrier."""
    _wake(_FUTEX, address, _FUTEX_WAKE, 1)


_scratch = ctypes.c_uint32(0)


_X86 = platform.machine() in ("x86_64", "AMD64")
_lock = threading.Lock()


def full_fence(acquire=_lock.acquire, release=_lock.release) -> bool:
    """Orders the writes before it with the reads after it, if that is cheaper here than a system
    call; False if not. Taking a lock that is free is one locked instruction, which on x86-64 is a
    full barrier (Intel SDM, volume 3A, section 9.2)."""
    if not _X86:
        return False
    acquire(False)
    release()
    return True


def _wake_nobody():
    futex_wake(ctypes.addressof(_scratch))


def _choose_barrier():
    """Orders the reads and writes before it with those after it, as other processes see them; None
    where there is nothing to call. x86-64 keeps the order that a ring needs; elsewhere a futex call
    on a word that nobody waits on is a barrier, since the kernel has one before it looks for waiters."""
    if _X86:
        return None
    if HAS_FUTEX:
        return _wake_nobody
    return getattr(_LIBC, "OSMemoryBarrier", None)  # macOS


barrier = _choose_barrier()


class Arena:
    """Memory that the rank owns and this process maps, as bytes and as words."""

    def __init__(self, fd: int, size: int, name: str = ""):
        try:
            _check(fd, size)
            self.map = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(fd)
        self.name, self.size = name, size
        self.bytes = memoryview(self.map)

    def words(self, kind: str) -> memoryview:
        """The memory as native words: "I" for u32, "Q" for u64. One access is one load or store."""
        width = {"I": 4, "Q": 8}[kind]
        return self.bytes[:self.size // width * width].cast(kind)

    def address(self, offset: int) -> int:
        """The address of a byte."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.map, offset))

    def part(self, offset: int, size: int) -> memoryview:
        """Bytes of the arena. Both arguments come from the other side and are checked."""
        if offset > self.size or size > self.size - offset:
            raise protocol_error(f"{size} bytes at offset {offset} are outside arena {self.name!r} of {self.size} bytes")
        return self.bytes[offset:offset + size]


def _check(fd: int, size: int):
    if not 0 < size <= 1 << 46:
        raise protocol_error(f"an arena of {size} bytes")
    if os.fstat(fd).st_size < size:
        raise protocol_error(f"an arena of {size} bytes in a file of {os.fstat(fd).st_size}")
    if _LINUX and not fcntl.fcntl(fd, _GET_SEALS) & _SEAL_SHRINK:
        raise protocol_error("an arena whose file could shrink")

