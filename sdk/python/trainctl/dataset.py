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

    ``input`` and ``target`` are arrays of n samples, views of shared memory with old content.
    ``split`` is "train" or "test". ``augment`` is False for test samples and for training samples
    held out for validation: read them without random transforms.
    """

    __slots__ = ("input", "target", "split", "epoch", "seed", "augment", "_indices", "_unsigned", "_head")

    def __init__(self, indices, input, target):
        self.input, self.target, self._indices = input, target, indices
        self._unsigned = indices.view(np.uint64)  # in which negative ones are large
        self._head = b""

    def _begin(self, split: int, no_augment: bool, epoch: int, seed: int):
        if split > 1:
            raise protocol_error(f"split {split}")
        self.split, self.epoch, self.seed = ("train", "test")[split], epoch, seed
        self.augment = split == 0 and not no_augment

    def take(self, inputs: np.ndarray, targets: np.ndarray):
        """Copies the batch's samples out of arrays that hold all samples of the split, in one pass.
        Arrays of the spec's types are fastest; others are converted."""
        _take(inputs, self._indices, self.input)
        _take(targets, self._indices, self.target)

    def random(self, position: int) -> np.random.Generator:
        """Random numbers for the sample at a position of the batch. They depend on seed, epoch and
        sample, not on the rank or the batch that reads it."""
        return np.random.default_rng((self.seed, self.epoch, int(self._indices[position])))


def _take(source: np.ndarray, indices: np.ndarray, out: np.ndarray):
    if source.dtype is out.dtype or source.dtype == out.dtype:
        source.take(indices, 0, out, "clip")  # "raise" would copy twice; indices are checked
    else:
        out[...] = source[indices]


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


_HEAD = struct.Struct("<IB3xqQ")  # what differs between fills of the same slot
_MEMORY = struct.Struct("<QQQQ")
_HEAD_AT, _MEMORY_AT, _FILL_END = 56, 80, 112  # in the submission
_KEPT_BATCHES = 256


class Filler:
    """Turns fills of either data plane into calls of a data set. It runs for every batch, so that
    each microsecond counts: the arrays of a slot, which the host uses again and again, are kept."""

    def __init__(self, instance: Dataset, spec: Spec):
        self._instance, self._spec = instance, spec
        self._samples = {"train": spec.train, "test": spec.test}
        self._input, self._target = spec.input.bytes, spec.target.bytes
        self._batches: dict[bytes, Batch] = {}

    def from_ring(self, sub, arena) -> Batch:
        """Checks a submission and finds its memory; arena(number) is the arena with a number."""
        data = sub.data
        place, head = data[16:44] + data[_MEMORY_AT:_FILL_END], data[_HEAD_AT:_MEMORY_AT]
        batch = self._batches.get(place) or self._place(place, sub, arena)
        if batch._head != head:
            batch._begin(*_HEAD.unpack(head))
            batch._head = head
        return self._checked(batch)

    def _place(self, place: bytes, sub, arena) -> Batch:
        """The arrays of a slot."""
        at, size, target_at, target_size = _MEMORY.unpack_from(sub.data, _MEMORY_AT)
        n, memory = sub.count, arena(sub.arena).part
        if n > 1 << 31 or sub.size != 8 * n or sub.offset % 8 or size != n * self._input or target_size != n * self._target:
            raise protocol_error(f"a batch of {n} samples with {sub.size}, {size} and {target_size} bytes, its indices at {sub.offset}")
        if len(self._batches) >= _KEPT_BATCHES:
            self._batches.clear()
        indices = _arrays.view(memory(sub.offset, 8 * n), np.dtype(np.int64), n)
        self._batches[place] = batch = self._batch(indices, memory(at, size), memory(target_at, target_size))
        return batch

    def _batch(self, indices, input, target) -> Batch:
        n, s = len(indices), self._spec
        return Batch(indices, _arrays.view(input, s.input.numpy, (n, *s.input.shape)), _arrays.view(target, s.target.numpy, (n, *s.target.shape)))

    def from_message(self, r):
        """A batch with memory of its own, for the inline data plane."""
        n = len(r.indices)
        input, target = bytearray(n * self._input), bytearray(n * self._target)
        batch = self._batch(np.array(r.indices, np.int64), input, target)
        batch._begin(r.split, r.no_augment, r.epoch, r.seed)
        return self._checked(batch), input, target

    def _checked(self, batch: Batch) -> Batch:
        unsigned = batch._unsigned
        if len(unsigned) and unsigned.item(unsigned.argmax()) >= self._samples[batch.split]:
            raise protocol_error(f"a sample outside 0..{self._samples[batch.split] - 1}")
        return batch

    def fill(self, batch: Batch):
        """Calls the data set."""
        self._instance.batch(batch._indices, batch)
