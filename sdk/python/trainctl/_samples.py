"""Reads samples of a map-style data set, in the plugin's process or in a worker."""

import importlib
import operator
import os
import random
import struct
import sys
import zlib

import numpy as np

from ._arrays import take
from ._errors import CorruptData, Error, OptionError

_dtype = operator.attrgetter("dtype")


def make(name: str, path: str, option: str):
    """The class or function that "module:Class" names."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise OptionError(option, f"{name!r} is not of the form module:Class", 'write "torchvision.datasets:MNIST"')
    folder = os.path.abspath(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as e:
        raise OptionError(option, f"Python {sys.version.split()[0]} has no module {e.name}, looked for in {folder} and in Python's path",
                          f"install it for {sys.executable}, or set path to its folder") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise OptionError(option, f"the module {module} has no {attribute}")
        found = getattr(found, part)
    return found


def count(data) -> int:
    """The number of samples."""
    try:
        return len(data)
    except TypeError:
        raise Error(f"{type(data).__name__} has no length: trainctl reads samples by index, so an IterableDataset cannot be used; derive from torch.utils.data.Dataset") from None


def as_array(value) -> np.ndarray:
    """A tensor, array or number as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


class Reader:
    """The data sets of all splits. A recipe is a target and its keyword arguments."""

    def __init__(self, recipes: dict, path: str):
        self.sets = {split: make(target, path, "target")(**arguments) for split, (target, arguments) in recipes.items()}
        self._tables = {split: _table(data) for split, data in self.sets.items()}
        self._draws: set = set()  # splits that are known to draw random numbers
        self._after: tuple | None = None  # the generators' states after the last batch; None: not known
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the rank computes on these cores

    def sample(self, split: str, index: int, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """One sample. Its random numbers depend on seed, epoch and index alone."""
        return _pair(self._seeded(split, index, seed, epoch), index)

    def read(self, split: str, indices, seed: int, epoch: int, input: np.ndarray, target: np.ndarray):
        """Writes samples into arrays; epoch is -1 for samples that do not depend on it.

        Seeding the generators costs more than many a sample, and a data set may read several samples in
        one call, of which only the first would be seeded. So a batch is first read without seeds; if
        that has drawn random numbers, it is read again with a seed for every sample, and so are all
        later ones."""
        if table := self._tables[split]:
            take(table[0], indices, input)
            take(table[1], indices, target)
            return
        if split not in self._draws:
            before = self._after or _states()
            self._write(self._several(split, indices), indices, input, target)
            self._after = _states()
            if before == self._after:
                return
            self._draws.add(split)
        self._write((self._seeded(split, int(i), seed, epoch) for i in indices), indices, input, target)

    def _several(self, split: str, indices):
        data = self.sets[split]
        if not (batched := getattr(data, "__getitems__", None)):
            return [data[i] for i in indices.tolist()]
        found = list(batched(indices.tolist()))
        if len(found) != len(indices):
            raise Error(f"__getitems__ returned {len(found)} samples for {len(indices)} indices: return one for each")
        return found

    def _seeded(self, split: str, index: int, seed: int, epoch: int):
        _seed(seed, epoch, index)
        self._after = None
        return self.sets[split][index]

    def _write(self, samples, indices, input: np.ndarray, target: np.ndarray):
        found = list(samples)
        if set(map(type, found)) == {tuple} and set(map(len, found)) == {2}:
            inputs, targets = zip(*found)
            if _write_together(inputs, input) and _write_together(targets, target):
                return
        for k, sample in enumerate(found):
            x, y = _pair(sample, indices[k])
            if x.shape != input.shape[1:] or y.shape != target.shape[1:]:
                raise CorruptData(f"sample {indices[k]} has an input of shape {x.shape} and a target of {y.shape}, the first sample {input.shape[1:]} and {target.shape[1:]}: make all samples the same size, for example with a transform")
            input[k], target[k] = x, y


def _write_together(values: tuple, out: np.ndarray) -> bool:
    """Writes integers, or tensors of the array's shape and one type, in one call; False if they are something else."""
    kinds = set(map(type, values))
    if kinds == {int} and out.ndim == 1:
        out[:] = values
        return True
    torch = sys.modules.get("torch")
    if not torch or kinds != {torch.Tensor}:
        return False
    memory, types = torch.from_numpy(out), set(map(_dtype, values))
    if values[0].shape != memory.shape[1:] or len(types) > 1:
        return False
    try:
        with torch.no_grad():
            if memory.dtype in types:
                torch.stack(values, out=memory)
            else:
                memory.copy_(torch.stack(values))
    except RuntimeError:  # they differ in shape or device
        return False
    return True


def _pair(sample, index) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(sample, (tuple, list)) or len(sample) != 2:
        raise Error(f"sample {index} is a {type(sample).__name__}, not a pair of input and target: return (input, target) from __getitem__")
    return as_array(sample[0]), as_array(sample[1])


def _seed(seed: int, epoch: int, index: int):
    """Seeds what random transforms draw from."""
    mixed = zlib.crc32(struct.pack("<QqQ", seed, epoch, index))
    random.seed(mixed)
    np.random.seed(mixed)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(mixed)  # torch.manual_seed looks for GPUs, which costs 100 times as much


def _states() -> tuple:
    """The states of the generators that random transforms draw from."""
    torch, numpy = sys.modules.get("torch"), np.random.get_state()
    return random.getstate(), numpy[1].tobytes(), numpy[2:], torch and torch.default_generator.get_state().numpy().tobytes()


def _table(data) -> tuple[np.ndarray, np.ndarray] | None:
    """All inputs and targets of a data set that is nothing but two tensors."""
    utils = sys.modules.get("torch.utils.data")
    if utils is None or type(data) is not utils.TensorDataset or len(data.tensors) != 2:
        return None
    return as_array(data.tensors[0]), as_array(data.tensors[1])
