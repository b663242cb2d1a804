"""The plugin's end of the ring: docs/protocol.md, section 4."""

import os
import struct
import time

from . import _memory
from ._errors import protocol_error
from ._options import duration

_HEADER = struct.pack("<8sIIIII4x", b"TCRING01", 64, 128, 64, 0x400, 0x2400)
_SLOTS = 64
_ABORT, _SUBMISSION_BELL, _ASLEEP, _COMPLETION_BELL = 0x040 // 4, 0x100 // 4, 0x140 // 4, 0x1C0 // 4
_HOST_ASLEEP = 0x200 // 4
_HEARTBEAT, _SUBMITTED, _COMPLETED = 0x080 // 8, 0x0C0 // 8, 0x180 // 8
_SUBMISSIONS, _COMPLETIONS = 0x400, 0x2400
_FLIGHTS, _FLIGHT_AT, _FLIGHT_WORDS = 1024, 0x4000 // 8, 8
_STARTED, _ENDED, _STATUS = 5, 6, 7

_SLOT = struct.Struct("<QQ112s")  # ticket, sequence number, and what is equal for fills of one slot
_SUBMISSION = struct.Struct("<QQQIiiBBBx72s")
_OP = 36
_COMPLETION = struct.Struct("<QIxxxx48s")

SLICE = 0.1  # seconds: the longest sleep
_CROWDED = 100e-6  # seconds that a yield takes when another process computes on the core
_IN_VAIN = 4  # spins in a row without success
_LEFT_OUT = 64  # waits that then sleep at once


class Submission:
    """The fields of an operation of the host. Fills, whose rate counts, look at the bytes instead."""

    __slots__ = ("op", "seq", "offset", "count", "size", "arena", "root", "bucket", "dtype", "reduce", "payload")

    def __init__(self, data: bytes, seq: int):
        self.seq = seq
        (self.offset, self.count, self.size, self.arena, self.root, self.bucket,
         self.op, self.dtype, self.reduce, self.payload) = _SUBMISSION.unpack(data)


def operation(data: bytes) -> int:
    """The number of the operation that a submission asks for."""
    return data[_OP]


class Ring:
    """Takes submissions and posts completions, in one thread; ``beat`` and ``idle`` are for any other."""

    def __init__(self, arena: _memory.Arena):
        if arena.size < 0x4000 or bytes(arena.bytes[:len(_HEADER)]) != _HEADER:
            raise protocol_error("no ring of this version in the control arena")
        self._arena = arena
        self._bytes, self._u32, self._u64 = arena.bytes, arena.words("I"), arena.words("Q")
        self.ticket = self.seq = 0  # of the submission that was taken last
        self._completed = 0
        self._recorded = arena.size >= 0x4000 + _FLIGHTS * _FLIGHT_WORDS * 8
        self._bell, self._done = arena.address(_SUBMISSION_BELL * 4), arena.address(_COMPLETION_BELL * 4)
        self._spin = _spin_time()
        self._vain = self._pause = 0
        self._poll = not _memory.HAS_FUTEX or os.environ.get("TRAINCTL_DOORBELL") == "poll"
        self._barrier, self._fence = _memory.barrier, _memory.full_fence if _memory.HAS_FUTEX else None

    def next(self) -> bytes | None:
        """The next submission without its ticket and its sequence number, if there is one."""
        n, tail = self.ticket, self._u64[_SUBMITTED]
        if tail == n:
            return None
        if self._barrier:
            self._barrier()
        if tail < n or tail - self._completed > _SLOTS:
            raise protocol_error(f"the host claims {tail} submissions, {n} taken, {self._completed} completed")
        ticket, self.seq, data = _SLOT.unpack_from(self._bytes, _SUBMISSIONS + n % _SLOTS * 128)  # a copy, which the host cannot change any more
        if ticket != n + 1:
            raise protocol_error(f"submission {n + 1} has ticket {ticket}")
        if self._recorded:
            self._u64[_FLIGHT_AT + n % _FLIGHTS * _FLIGHT_WORDS + _STARTED] = time.time_ns()
        self.ticket = ticket
        return data

    def post(self, failed: bool, result: bytes = b""):
        """Completes the operation that was taken last."""
        n, u64 = self._completed, self._u64
        _COMPLETION.pack_into(self._bytes, _COMPLETIONS + n % _SLOTS * 64, n + 1, failed, result)
        if self._recorded:
            at = _FLIGHT_AT + n % _FLIGHTS * _FLIGHT_WORDS
            u64[at + _STATUS] = failed
            u64[at + _ENDED] = time.time_ns()
        self._completed = n + 1
        if self._barrier:
            self._barrier()
        u64[_COMPLETED] = n + 1
        if self._barrier:
            self._barrier()
        u32 = self._u32
        u32[_COMPLETION_BELL] = u32[_COMPLETION_BELL] + 1 & 0xFFFFFFFF
        if self._fence and (not self._fence() or u32[_HOST_ASLEEP]):
            _memory.futex_wake(self._done)

    def wait(self):
        """Returns when there may be something to take, after at most 100 ms."""
        rung, n = self._u32[_SUBMISSION_BELL], self.ticket
        if self._spun(n):
            return
        if self._poll:
            self._nap(rung, n)
            return
        self._u32[_ASLEEP] = 1
        if self._barrier:
            self._barrier()
        if self._u64[_SUBMITTED] == n:
            _memory.futex_wait(self._bell, rung, SLICE)  # compares the bell after a barrier of its own
        self._u32[_ASLEEP] = 0

    def _spun(self, n: int) -> bool:
        """Looks for a submission for a short time, unless that was in vain lately or kept others from the core."""
        if self._pause:
            self._pause -= 1
            return False
        begin = last = time.perf_counter()
        while last - begin < self._spin:
            if self._u64[_SUBMITTED] != n:
                self._vain = 0
                return True
            os.sched_yield()
            before, last = last, time.perf_counter()
            if last - before > _CROWDED:
                self._vain = _IN_VAIN
                break
        self._vain += 1
        if self._vain >= _IN_VAIN:
            self._vain, self._pause = 0, _LEFT_OUT
        return False

    def _nap(self, rung: int, n: int):
        nap, end = 20e-6, time.perf_counter() + SLICE
        while self._u64[_SUBMITTED] == n and self._u32[_SUBMISSION_BELL] == rung and time.perf_counter() < end:
            time.sleep(nap)
            nap = min(2 * nap, 1e-3)

    def beat(self):
        """Counts the heartbeat up."""
        self._u64[_HEARTBEAT] = self._u64[_HEARTBEAT] + 1

    def aborted(self) -> bool:
        """Whether the host has given up."""
        return self._u32[_ABORT] != 0

    def idle(self) -> bool:
        """Whether everything submitted so far is completed."""
        return self._u64[_SUBMITTED] == self._completed


def _spin_time() -> float:
    """How long to look before sleeping, in seconds."""
    text = os.environ.get("TRAINCTL_SPIN", "")
    if text:
        return max(duration(text).total_seconds(), 0.0)
    return 50e-6 if _memory.HAS_FUTEX else 0.0
