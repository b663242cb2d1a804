"""Memory that the plugins of a run on one host have in common."""

import contextlib
import fcntl
import mmap
import os
import socket
import threading

_WAIT = 10.0  # seconds for another process to answer


def memory(name: str, size: int) -> mmap.mmap:
    """Memory of zeros, the same for all processes of a run on this host that ask for the name: it lasts
    as long as one of them. Where they have no folder in common, each gets its own."""
    folder = os.environ.get("TRAINCTL_PLUGIN_SHARED_DIR", "")
    if folder and hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # a sandbox that denies the connection, or a path that is too long
            return _common(folder, name, size)
    return mmap.mmap(-1, size)


def _common(folder: str, name: str, size: int) -> mmap.mmap:
    os.makedirs(folder, 0o700, exist_ok=True)
    path = os.path.join(folder, name)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (fd := _ask(path)) is None:
            fd = os.memfd_create(name)
            os.ftruncate(fd, size)
            _offer(path, os.dup(fd))
    try:
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)


def _ask(path: str) -> int | None:
    """The descriptor that another process offers; None if there is no such process any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(_WAIT)
        try:
            s.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        return next(iter(socket.recv_fds(s, 1, 1)[1]), None)


def _offer(path: str, fd: int):
    """Sends a descriptor to every process that connects."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()

    def answer():
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):  # it has ended meanwhile
                socket.send_fds(connection, [b"m"], [fd])

    threading.Thread(target=answer, daemon=True, name="shared memory").start()
