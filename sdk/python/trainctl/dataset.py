"""Data sets: programs that write samples into memory that they share with the rank."""

import dataclasses
import hashlib
import logging
import math
import struct

import numpy as np

from . import _arrays
from ._errors import protocol_error
from ._plugin import Plugin
from ._ring import Submission

FILL = 64  # the operation's number


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Element type and shape of one sample, without the batch dimension. See :func:`f32`, :func:`i32`."""

    dtype: str
    shape: tuple

    @property
    def numpy(self) -> np.dtype:
        """The element type in NumPy."""
        return _arrays.NUMPY[self.dtype]

    @property
    def bytes(self) -> int:
        """The size of one sample in bytes."""
        return self.numpy.itemsize * math.prod(self.shape)

    def message(self) -> dict:
        return {"dtype": _arrays.NUMBERS[self.dtype], "shape": list(self.shape)}


def f32(*shape: int) -> TensorSpec:
    """float32 of a shape: ``f32(1, 28, 28)`` is an image, ``f32()`` a number."""
    return TensorSpec("f32", tuple(map(int, shape)))


def i32(*shape: int) -> TensorSpec:
    """int32 of a shape: ``i32()`` is a class index, ``i32(128)`` a text of 128 tokens."""
    return TensorSpec("i32", tuple(map(int, shape)))


@dataclasses.dataclass
class Spec:
    """Describes an open data set. It must be equal on all ranks."""

    input: TensorSpec  # f32, or i32 for indices such as tokens
    target: TensorSpec  # i32 class indices, one or one per position, or f32
    train: int  # training samples
    test: int  # test samples
    fingerprint: str  # of the content, see fingerprint(); a resume on other data is refused
    classes: int = 0  # i32 targets are in [0, classes) or -100, which is ignored; 0 for regression
    class_names: tuple = ()
    vocabulary: int = 0  # i32 inputs are in [0, vocabulary)
    source: str = "plugin"  # where the data came from: "files", "download", "generated"
    notice: str = ""  # shown as a warning
    test_bytes: int = 0  # bytes of text that the targets of the test samples stand for
    tokenizer: str = ""  # "bytes", "chars" or the path of a tokenizer.json

    def message(self) -> dict:
        """The fields of the protocol's OpenDatasetReply."""
        return {
            "source": self.source, "input": self.input.message(), "target": self.target.message(), "classes": int(self.classes),
            "class_names": list(self.class_names), "train_samples": int(self.train), "test_samples": int(self.test),
            "fingerprint": self.fingerprint, "notice": self.notice, "vocabulary": int(self.vocabulary),
            "test_bytes": int(self.test_bytes), "tokenizer": self.tokenizer,
        }


@dataclasses.dataclass(frozen=True)
class Run:
    """Who opens the data set."""

    rank: int
    local_rank: int
    world_size: int
    seed: int
    validation: bool  # training samples are held out, see Batch.augment

    def progress(self, done: int, total: int, text: str = "reading"):
        """Shows a progress line in the run's output. The numbers are bytes."""
        logging.getLogger("trainctl").info(text, extra={"done": int(done), "total": int(total)})


class Batch:
    """The memory that :meth:`Dataset.batch` fills. It belongs to the rank: keep no reference to it
    or to its arrays after ``batch`` returns.

    ``input`` and ``target`` are arrays of n samples, views of shared memory with old content, and
    ``indices`` which samples they are.
    ``split`` is "train" or "test". ``augment`` is False for test samples and for training samples
    held out for validation: read them without random transforms.
    """

    __slots__ = ("indices", "input", "target", "split", "epoch", "seed", "augment", "_unsigned", "_samples")

    def __init__(self, indices, input, target, head: tuple, samples: tuple):
        split, no_augment, self.epoch, self.seed = head
        if split > 1:
            raise protocol_error(f"split {split}")
        self.input, self.target, self.indices = input, target, indices
        self.split, self.augment = ("train", "test")[split], split == 0 and not no_augment
        self._unsigned = indices.view(np.uint64)  # in which negative ones are large
        self._samples = samples[split]  # how many there are

    def _check(self):
        unsigned = self._unsigned
        if len(unsigned) and unsigned.item(unsigned.argmax()) >= self._samples:
            raise protocol_error(f"a sample outside 0..{self._samples - 1}")

    def take(self, inputs: np.ndarray, targets: np.ndarray):
        """Copies the batch's samples out of arrays that hold all samples of the split, in one pass.
        Arrays of the spec's types are fastest; others are converted."""
        _arrays.take(inputs, self.indices, self.input)
        _arrays.take(targets, self.indices, self.target)

    def random(self, position: int) -> np.random.Generator:
        """Random numbers for the sample at a position of the batch. They depend on seed, epoch and
        sample, not on the rank or the batch that reads it."""
        return np.random.default_rng((self.seed, self.epoch, int(self.indices[position])))


class Dataset(Plugin):
    """A data set. The core decides order, sharding and epochs. Order of calls: ``open``, ``spec``,
    ``batch`` for every batch, ``close``. There is one process for each rank."""

    kind = "dataset"

    def open(self, run: Run):
        """Finds and checks the data, so that reading cannot fail for a reason found here. Options
        are attributes by now. Local ranks call it at the same time."""

    def spec(self) -> Spec:
        """Describes what ``open`` found."""
        raise NotImplementedError(f"{type(self).__name__} needs a method spec")

    def batch(self, indices: np.ndarray, out: Batch):
        """Writes the samples with these indices, int64 and in range, in this order, into
        ``out.input`` and ``out.target``. It depends on nothing but its arguments."""
        raise NotImplementedError(f"{type(self).__name__} needs a method batch")

    def train_classes(self):
        """The class of every training sample, or None if reading them all is needed to know.
        ``[dataset] validation`` then holds out the same share of each class."""
        return None


def fingerprint(*parts) -> str:
    """A checksum of arrays and other values: the data's identity."""
    h = hashlib.sha256()
    for part in parts:  # each says first how long it is, so that no two lists of parts have the same bytes
        if isinstance(part, np.ndarray):
            h.update(f"array {part.dtype.str} {part.shape} ".encode())
            h.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            text = repr(part).encode(errors="backslashreplace")
            h.update(f"value {len(text)} ".encode() + text)
    return f"sha256:{h.hexdigest()}"


_FILL = struct.Struct("<IB3xqQ QQQQ")  # the payload: split, whether to augment, epoch, seed, and the places of both arrays
_KEPT_BATCHES = 256


class Filler:
    """Turns fills of either data plane into batches. It runs for every batch, so that each
    microsecond counts: a batch is kept for a slot, which the host uses again and again."""

    def __init__(self, spec: Spec):
        self._spec, self._samples = spec, (spec.train, spec.test)
        self._input, self._target = spec.input.bytes, spec.target.bytes
        self._batches: dict[bytes, Batch] = {}

    def from_ring(self, data: bytes, arena) -> Batch:
        """Checks a submission and finds its memory; arena(number) is the arena with a number."""
        batch = self._batches.get(data)
        if batch is None:
            batch = self._place(data, arena)
        batch._check()
        return batch

    def _place(self, data: bytes, arena) -> Batch:
        """The batch of a slot and an epoch."""
        sub = Submission(data, 0)
        *head, at, size, target_at, target_size = _FILL.unpack_from(sub.payload)
        n, memory = sub.count, arena(sub.arena).part
        if n > 1 << 31 or sub.size != 8 * n or sub.offset % 8 or size != n * self._input or target_size != n * self._target:
            raise protocol_error(f"a batch of {n} samples with {sub.size}, {size} and {target_size} bytes, its indices at {sub.offset}")
        if len(self._batches) >= _KEPT_BATCHES:
            self._batches.clear()
        indices = _arrays.view(memory(sub.offset, 8 * n), np.dtype(np.int64), n)
        self._batches[data] = batch = self._batch(indices, memory(at, size), memory(target_at, target_size), head)
        return batch

    def _batch(self, indices, input, target, head) -> Batch:
        n, s = len(indices), self._spec
        input, target = _arrays.view(input, s.input.numpy, (n, *s.input.shape)), _arrays.view(target, s.target.numpy, (n, *s.target.shape))
        return Batch(indices, input, target, head, self._samples)

    def from_message(self, r):
        """A batch with memory of its own, for the inline data plane."""
        n = len(r.indices)
        input, target = bytearray(n * self._input), bytearray(n * self._target)
        batch = self._batch(np.array(r.indices, np.int64), input, target, (r.split, r.no_augment, r.epoch, r.seed))
        batch._check()
        return batch, input, target
