"""The data set "torch": any map-style ``torch.utils.data.Dataset`` as a trainctl data set.

The program ``trainctl-dataset-torch`` serves it. Nothing of PyTorch is imported unless the data set does.
"""

import hashlib
import inspect
import json
import numbers
import os

import numpy as np

from . import _memory, _shared
from ._errors import Error, OptionError
from ._options import Option
from ._samples import Reader, as_array, count, make
from ._serve import serve
from ._workers import Workers
from .dataset import Dataset, Spec, TensorSpec, fingerprint

_SAMPLED = 32  # samples of each split that the fingerprint covers


class Torch(Dataset):
    """any torch.utils.data.Dataset whose samples are pairs of input and target"""

    name = "torch"
    version = "0.1.0"

    target = Option(type=str, required=True, doc='What makes the data set: "module:Class" or "module:function". It is called with train=True or False, or split="train" or "test", if it has such a parameter.')
    test_target = Option("", doc="What makes the test set, where target has no parameter train or split; without it, there are no test samples.")
    arguments = Option("{}", doc='Other keyword arguments as a JSON object, such as {"root": "data"}.')
    path = Option(".", doc="Folder in which modules are looked for before Python's own path.")
    workers = Option(0, min=0, max=256, unit="processes", doc="Processes that read the samples of a batch in parallel; 0 reads in the plugin's process.")
    cache = Option(False, doc="Keep every sample once it has been read, in memory that the ranks of a host share. Only for data sets without random transforms.")
    classes = Option(0, min=0, doc="Number of classes; 0 takes it from the attributes classes or targets of the data set.")
    vocabulary = Option(0, min=0, doc="Number of values of an input of integers, such as tokens.")

    def open(self, run):
        recipes = self._recipes()
        self._reader = Reader(recipes, self.path)
        self._seed = run.seed
        self._sizes = {split: count(d) for split, d in self._reader.sets.items()}
        first = self._reader.sample("train", 0, run.seed, 0)
        self._input, self._target = _spec("input", first[0]), _spec("target", first[1])
        if self._input.dtype == "i32" and not self.vocabulary:
            raise OptionError("vocabulary", "the input has integers, whose number of values is not known", "set vocabulary, or convert the input to float in the data set")
        self._workers = Workers(self.workers, recipes, self.path, (self._input, self._target)) if self.workers else None
        self._identity = self._fingerprint()
        self._kept = {split: _Kept(split, n, self._input, self._target, self._identity) for split, n in self._sizes.items()} if self.cache else {}

    def _recipes(self) -> dict:
        """How to make the data set of each split: a target and its keyword arguments."""
        try:
            arguments = json.loads(self.arguments)
        except ValueError as e:
            raise OptionError("arguments", f"not a JSON object: {e}", 'write {"root": "data"}') from None
        if not isinstance(arguments, dict):
            raise OptionError("arguments", "not a JSON object", 'write {"root": "data"}')
        takes = _parameters(make(self.target, self.path, "target"))
        if "train" in takes:
            split = {"train": {"train": True}, "test": {"train": False}}
        elif "split" in takes:
            split = {"train": {"split": "train"}, "test": {"split": "test"}}
        else:
            split = {"train": {}}
        recipes = {name: (self.target, {**arguments, **extra}) for name, extra in split.items()}
        if self.test_target:
            make(self.test_target, self.path, "test_target")
            recipes["test"] = (self.test_target, arguments)
        return recipes

    def spec(self):
        named, names = _classes(self._reader.sets["train"])
        classes = (self.classes or named or self._counted_classes()) if self._target.dtype == "i32" else 0
        return Spec(
            input=self._input, target=self._target, train=self._sizes["train"], test=self._sizes.get("test", 0), classes=classes,
            class_names=names if len(names) == classes else (), vocabulary=self.vocabulary, source=self.target,
            fingerprint=self._identity,
        )

    def _counted_classes(self) -> int:
        labels = getattr(self._reader.sets["train"], "targets", None)
        if labels is None:
            raise OptionError("classes", "the data set has no attribute classes or targets, which say how many classes there are", "set classes")
        return int(np.max(as_array(labels))) + 1

    def _fingerprint(self) -> str:
        """Covers the arguments and some samples of each split: reading all may take hours."""
        parts = [self.target, self.test_target, self.arguments, sorted(self._sizes.items())]
        for split, n in sorted(self._sizes.items()):
            for i in np.linspace(0, n - 1, min(n, _SAMPLED), dtype=int):
                parts += self._reader.sample(split, int(i), 0, 0)
        return fingerprint(*parts)

    def train_classes(self):
        labels = getattr(self._reader.sets["train"], "targets", None)
        return as_array(labels).ravel() if labels is not None and len(labels) == self._sizes["train"] else None

    def batch(self, indices, out):
        kept = self._kept.get(out.split)
        if kept is None:
            self._read(out.split, indices, out.seed, out.epoch if out.augment else -1, out.input, out.target)
            return
        missing = kept.missing(indices)
        if len(missing) == len(indices):
            self._read(out.split, indices, out.seed, -1, out.input, out.target)
            kept.add(indices, out.input, out.target)
            return
        if len(missing):
            shape = (len(missing),)
            input, target = np.empty(shape + out.input.shape[1:], out.input.dtype), np.empty(shape + out.target.shape[1:], out.target.dtype)
            self._read(out.split, missing, out.seed, -1, input, target)
            kept.add(missing, input, target)
        out.take(kept.input, kept.target)

    def _read(self, split, indices, seed, epoch, input, target):
        if self._workers:
            self._workers.read(split, indices, seed, epoch, input, target)
        else:
            self._reader.read(split, indices, seed, epoch, input, target)

    def close(self):
        if workers := getattr(self, "_workers", None):
            workers.close()


class _Kept:
    """Samples that have been read, by any rank of this host: all of them write the same bytes."""

    def __init__(self, split: str, n: int, input: TensorSpec, target: TensorSpec, identity: str):
        sizes = [_aligned(size) for size in (n, n * input.bytes, n * target.bytes)]
        key = hashlib.sha256(f"{split} {n} {input} {target} {identity}".encode()).hexdigest()
        memory = _shared.memory(f"samples-{key[:16]}", sum(sizes) or 1)
        self._read = np.ndarray(n, bool, memory)
        self.input = np.ndarray((n, *input.shape), input.numpy, memory, sizes[0])
        self.target = np.ndarray((n, *target.shape), target.numpy, memory, sizes[0] + sizes[1])

    def missing(self, indices: np.ndarray) -> np.ndarray:
        """Those of the samples that are not here yet."""
        read = self._read.take(indices)
        if _memory.barrier:
            _memory.barrier()
        return indices[:0] if read.all() else indices[~read]

    def add(self, indices: np.ndarray, input: np.ndarray, target: np.ndarray):
        self.input[indices], self.target[indices] = input, target
        if _memory.barrier:
            _memory.barrier()
        self._read[indices] = True


def _aligned(size: int) -> int:
    return (size + 63) // 64 * 64


def _parameters(target) -> set:
    try:
        return set(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return set()


def _classes(data) -> tuple[int, tuple]:
    """How many classes the attribute ``classes`` says, and their names: it is a list of names, of tuples
    of synonyms as torchvision's ImageNet has them, or a number."""
    classes = getattr(data, "classes", ())
    if isinstance(classes, numbers.Integral):
        return int(classes), ()
    try:
        names = tuple(", ".join(map(str, c)) if isinstance(c, (tuple, list)) else str(c) for c in classes)
    except TypeError:  # something else that has the name
        return 0, ()
    return len(names), names


def _spec(what: str, value: np.ndarray) -> TensorSpec:
    if value.dtype.kind == "f":
        return TensorSpec("f32", value.shape)
    if value.dtype.kind in "iub":
        return TensorSpec("i32", value.shape)
    raise Error(f"the {what} of the first training sample is a {value.dtype} of shape {value.shape}: return numbers from the data set, for example with a transform that converts images to tensors")


def main():
    """The program trainctl-dataset-torch."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the rank computes on these cores
    serve(Torch)


if __name__ == "__main__":
    main()
