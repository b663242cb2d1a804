"""Communication backends. One in Python is for experiments and for teaching."""

import dataclasses
import time

import numpy as np

from . import _arrays
from ._errors import protocol_error
from ._plugin import Plugin
from .zz_protocol import COLLECTIVES, DTYPES, REDUCTIONS

_OPS = {c.name: number for number, c in COLLECTIVES.items()}


@dataclasses.dataclass(frozen=True)
class Group:
    """The process group."""

    job_id: str
    secret: bytes  # known only to the ranks of the job: peers must prove it before anything else is read
    generation: int  # restarts of the ranks
    epoch: int  # groups within a generation; refuse peers of another generation or epoch
    rank: int
    world_size: int
    local_rank: int
    local_size: int
    timeout: float  # seconds for one collective; 0: none
    master_addr: str  # the host at which every rank reaches rank 0
    channels: int


class Call:
    """One collective. ``op`` ("all_reduce"), ``reduce`` ("sum") and ``dtype`` ("f32") are names.
    ``buffer`` is the rank's own memory as an array, where the result appears; bfloat16 are their
    bits as uint16. ``root`` is the source of a broadcast, or the other rank of send and recv.
    ``deadline`` is in seconds of time.monotonic(), or None. str(call) describes the call for
    messages that compare the calls of two ranks."""

    __slots__ = ("seq", "op", "reduce", "dtype", "count", "root", "bucket", "channel", "buffer", "deadline", "definition")

    def __str__(self) -> str:
        d = self.definition
        text = f"#{self.seq} {self.op}"
        if d.kind == "none":
            return text
        text += f" {self.dtype}[{self.count}]"
        if d.reduces:
            text += f" {self.reduce}"
        if d.root_word:
            text += f" {d.root_word} rank {self.root}"
        if self.bucket >= 0:
            text += f", bucket {self.bucket}"
        return text + (f", channel {self.channel}" if self.channel else "")

    def seconds_left(self) -> float | None:
        """Until the deadline, at least 0; None without one. It is the timeout of a socket."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)


class Backend(Plugin):
    """One rank's end of a process group. Order of calls: ``open``, ``listen``, ``connect``, then
    ``do`` in the same order on every rank, ``close``.

    ``ops`` and ``dtypes`` are what the backend supports; it is asked for nothing else. Every run of
    several ranks needs broadcast (u8), all_gather (f64) and all_reduce (f64, and the gradients' type).
    """

    kind = "backend"
    ops: tuple = ("all_reduce", "broadcast", "all_gather", "barrier")
    dtypes: tuple = ("f32", "f64")
    devices: tuple = ("cpu",)
    max_world = 0  # 0: no limit
    determinism = ""  # "bitwise": equal inputs give equal bits on all ranks and in every run

    @classmethod
    def info(cls) -> dict:
        return {
            **super().info(), "ops": [_OPS[o] for o in cls.ops], "dtypes": [_arrays.NUMBERS[d] for d in cls.dtypes],
            "devices": list(cls.devices), "max_world": cls.max_world, "determinism": cls.determinism,
        }

    def open(self, group: Group):
        """Keeps the group. It must not wait for other ranks."""

    def listen(self) -> bytes:
        """Prepares for connections and returns what peers need: an address."""
        return b""

    def connect(self, endpoints: list[bytes], timeout: float):
        """Joins the group; endpoints[r] is from rank r's ``listen``. It returns when this rank can take
        part in collectives, or raises an error that names the ranks it could not reach in ``timeout`` seconds."""

    def do(self, call: Call):
        """Runs one collective until it is complete. Raise :class:`StallError` after its deadline,
        :class:`MismatchError` if ranks called different collectives and no memory has changed, and
        :class:`PeerError` if a rank is gone. Only ``close`` is called after an error."""
        raise NotImplementedError(f"{type(self).__name__} needs a method do")

    def interrupt(self):
        """Called from another thread when the rank gives up: makes ``do`` end soon."""


def open_group(r) -> Group:
    """The group of an OpenBackendRequest."""
    if not 0 <= r.rank < r.world_size or not 0 <= r.channels <= 8:
        raise protocol_error(f"rank {r.rank} in a group of {r.world_size} with {r.channels} channels")
    return Group(
        r.job_id, r.secret, r.generation, r.epoch, r.rank, r.world_size, r.local_rank, r.local_size,
        r.timeout_ns / 1e9, r.master_addr, max(r.channels, 1),
    )


def make_call(group: Group, r, channel: int) -> Call:
    """The call of a submission or a CollectiveRequest, checked, without memory."""
    if r.op not in COLLECTIVES:
        raise protocol_error(f"collective #{r.seq} has the unknown operation {r.op}")
    c = Call()
    c.definition = d = COLLECTIVES[r.op]
    c.seq, c.count, c.root, c.bucket, c.channel, c.buffer = r.seq, r.count, r.root, r.bucket, channel, None
    c.op, c.reduce, c.dtype = d.name, REDUCTIONS.get(r.reduce, ""), DTYPES.get(r.dtype, "")
    c.deadline = time.monotonic() + group.timeout if group.timeout > 0 else None
    if channel >= group.channels:
        raise protocol_error(f"collective #{r.seq} on channel {channel} of {group.channels}")
    if d.kind != "none" and (not c.reduce or not c.dtype or c.count > (1 << 40) // group.world_size):
        raise protocol_error(f"collective {c} is not valid")
    if d.root_word and not 0 <= c.root < group.world_size:
        raise protocol_error(f"collective {c} in a group of {group.world_size}")
    return c


def set_buffer(call: Call, group: Group, size: int, memory):
    """Gives a call its memory; memory() is called once the size has been checked."""
    if call.definition.kind == "none":
        call.buffer = np.empty(0, np.uint8)
        return
    dtype = _arrays.NUMPY[call.dtype]
    elements = call.count * (group.world_size if call.definition.parts else 1)
    if elements * dtype.itemsize != size:
        raise protocol_error(f"{call} has {elements * dtype.itemsize} bytes, not {size}")
    call.buffer = _arrays.view(memory(), dtype, elements)
