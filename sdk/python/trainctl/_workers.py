"""Worker processes of the data set "torch". Each has its own copy of the data set, reads a part of
every batch, and writes it to memory that it shares with the plugin."""

import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback

import numpy as np

from ._errors import CorruptData, Error


class Channel:
    """A socket that carries Python values, some with a descriptor."""

    def __init__(self, sock: socket.socket):
        self.socket = sock

    def send(self, value, fd: int | None = None):
        data = pickle.dumps(value)
        socket.send_fds(self.socket, [struct.pack("<I", len(data))], [] if fd is None else [fd])
        self.socket.sendall(data)

    def receive(self):
        """A value and its descriptor, or None. EOFError when the other side has ended."""
        head, fds, _, _ = socket.recv_fds(self.socket, 4, 1)
        if not head:
            raise EOFError
        head += self._exactly(4 - len(head))
        return pickle.loads(self._exactly(struct.unpack("<I", head)[0])), fds[0] if fds else None

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


class Workers:
    """Processes that share the work of every batch."""

    def __init__(self, n: int, recipes: dict, path: str, specs):
        self._specs = specs
        self._memory, self._room = None, 0
        self._processes, self._channels = [], []
        self._lost = None  # the error of the first worker that ended
        for _ in range(n):
            ours, theirs = socket.socketpair()
            with theirs:
                environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINCTL_PLUGIN_", "PLUGIN_"))}
                self._processes.append(subprocess.Popen(
                    [sys.executable, "-m", "trainctl._workers", str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL))
            self._channels.append(Channel(ours))
            self._channels[-1].send((recipes, path, specs))

    def read(self, split: str, indices: np.ndarray, seed: int, epoch: int, input: np.ndarray, target: np.ndarray):
        """Reads samples into arrays, a part in each process."""
        if self._lost:  # other workers may still have answers to an earlier batch
            raise self._lost
        n = len(indices)
        self._reserve(n)
        parts = [(k * n // len(self._channels), (k + 1) * n // len(self._channels)) for k in range(len(self._channels))]
        busy = [(c, p) for c, p in zip(self._channels, parts) if p[0] < p[1]]
        for channel, (begin, end) in busy:
            self._call(channel, lambda c: c.send(("read", split, indices[begin:end].copy(), seed, epoch, begin)))
        failure = None
        for channel, _ in busy:  # every answer is taken, so that the next batch finds none of this one
            failure = self._call(channel, lambda c: c.receive()[0]) or failure
        if failure:
            raise (CorruptData if failure[0] == CorruptData.code else Error)(failure[1])
        rows = _arrays(self._memory, self._specs, self._room)
        input[...], target[...] = rows[0][:n], rows[1][:n]

    def _reserve(self, n: int):
        """Has memory for n samples that all processes map."""
        if n <= self._room:
            return
        size = max(n * sum(s.bytes for s in self._specs), 1)
        with os.fdopen(os.memfd_create("batch"), "r+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile() as f:
            f.truncate(size)
            self._memory, self._room = mmap.mmap(f.fileno(), size), n
            for channel in self._channels:
                self._call(channel, lambda c: c.send(("memory", n), f.fileno()))

    def _call(self, channel: Channel, what):
        try:
            return what(channel)
        except (OSError, EOFError):
            k = self._channels.index(channel)
            self._lost = Error(f"worker process {k} of {len(self._channels)} ended with status {self._processes[k].wait(5)}; its last lines are in the log")
            raise self._lost from None

    def close(self):
        """Ends the processes, which hold nothing that has to be saved."""
        for channel, process in zip(self._channels, self._processes):
            channel.socket.close()
            process.kill()
        for process in self._processes:
            process.wait()


def _arrays(memory, specs, rows: int):
    """The shared memory as an array of inputs and one of targets."""
    input, target = specs
    first = rows * input.bytes
    return np.ndarray((rows, *input.shape), input.numpy, memory), np.ndarray((rows, *target.shape), target.numpy, memory, first)


def work(channel: Channel):
    """A worker's main: answers until the plugin closes the socket."""
    from ._samples import Reader

    (recipes, path, specs), _ = channel.receive()
    reader, arrays = Reader(recipes, path), None
    while True:
        (what, *arguments), fd = channel.receive()
        if what == "memory":
            arrays = _arrays(mmap.mmap(fd, 0), specs, arguments[0])
            os.close(fd)
            continue
        split, indices, seed, epoch, begin = arguments
        answer = None
        try:
            reader.read(split, indices, seed, epoch, arrays[0][begin:begin + len(indices)], arrays[1][begin:begin + len(indices)])
        except Exception as e:  # of the user's data set
            traceback.print_exc()
            answer = (getattr(e, "code", ""), str(e) if isinstance(e, Error) else f"{type(e).__name__}: {e}")
        channel.send(answer)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the plugin decides when it ends
    try:
        work(Channel(socket.socket(fileno=int(sys.argv[1]))))
    except (EOFError, OSError):
        pass  # the plugin has ended
