"""The socket to the host, descriptor 3 or the one on which a host has attached this process: docs/protocol.md, sections 2 and 8."""

import os
import socket
import struct
import threading

from ._errors import Error


class Link:
    """Receives the descriptors of arenas. ``run`` returns when the host is gone."""

    def __init__(self, fd: int):
        self._socket = socket.socket(fileno=fd)
        os.set_inheritable(fd, False)
        self._arrived = threading.Condition()
        self._files: dict[int, int] = {}

    def run(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, 8, 1)
            except OSError:
                return
            if len(data) != 8 or len(fds) != 1:
                return
            os.set_inheritable(fds[0], False)
            with self._arrived:
                self._files[struct.unpack("<Q", data)[0]] = fds[0]
                self._arrived.notify_all()

    def take(self, tag: int, timeout: float) -> int:
        """Waits for the descriptor with a tag. The caller owns it."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: tag in self._files, timeout):
                raise Error(f"descriptor {tag} did not arrive within {timeout:.0f} s")
            return self._files.pop(tag)


def open_link() -> Link | None:
    """The link that the environment names; without one there is only the inline data plane."""
    fd = os.environ.get("TRAINCTL_PLUGIN_FD", "")
    return Link(int(fd)) if fd else None
