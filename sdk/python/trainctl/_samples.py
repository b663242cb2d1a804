"""Reads samples of a map-style data set, in the plugin's process or in a worker."""

import importlib
import os
import random
import struct
import sys
import zlib

import numpy as np

from ._errors import CorruptData, Error, OptionError


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
        self._draws: set = set()  # splits that are known to draw random numbers
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the rank computes on these cores

    def sample(self, split: str, index: int, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """One sample. Its random numbers depend on seed, epoch and index alone."""
        _seed(seed, epoch, index)
        return _pair(self.sets[split][index], index)

    def read(self, split: str, indices, seed: int, epoch: int, input: np.ndarray, target: np.ndarray):
        """Writes samples into arrays; epoch is -1 for samples that do not depend on it.

        Seeding the generators costs more than many a sample, and a data set may read several samples in
        one call, of which only the first would be seeded. So a batch is first read without seeds; if
        that has drawn random numbers, it is read again with a seed for every sample, and so are all
        later ones."""
        if split not in self._draws:
            before = _states()
            self._write(self._several(split, indices), indices, input, target)
            if _same(before, _states()):
                return
            self._draws.add(split)
        self._write((self._seeded(split, int(i), seed, epoch) for i in indices), indices, input, target)

    def _several(self, split: str, indices):
        data = self.sets[split]
        if not (batched := getattr(data, "__getitems__", None)):
            return (data[int(i)] for i in indices)
        found = list(batched([int(i) for i in indices]))
        if len(found) != len(indices):
            raise Error(f"__getitems__ returned {len(found)} samples for {len(indices)} indices: return one for each")
        return found

    def _seeded(self, split: str, index: int, seed: int, epoch: int):
        _seed(seed, epoch, index)
        return self.sets[split][index]

    def _write(self, samples, indices, input: np.ndarray, target: np.ndarray):
        found = list(samples)
        if all(type(s) is tuple and len(s) == 2 for s in found):
            columns = tuple(zip(*found))
            if len(found) and _write_together(columns[0], input) and _write_together(columns[1], target):
                return
        for k, sample in enumerate(found):
            x, y = _pair(sample, indices[k])
            if x.shape != input.shape[1:] or y.shape != target.shape[1:]:
                raise CorruptData(f"sample {indices[k]} has an input of shape {x.shape} and a target of {y.shape}, the first sample {input.shape[1:]} and {target.shape[1:]}: make all samples the same size, for example with a transform")
            input[k], target[k] = x, y


def _write_together(values: tuple, out: np.ndarray) -> bool:
    """Writes tensors of the array's type and shape, or integers, in one call; False if they are something else."""
    kind = type(values[0])
    if any(type(v) is not kind for v in values):
        return False
    if kind is int and out.ndim == 1:
        out[:] = values
        return True
    torch = sys.modules.get("torch")
    if not torch or kind is not torch.Tensor:
        return False
    memory = torch.from_numpy(out)
    if any(v.dtype is not memory.dtype or v.shape != memory.shape[1:] or v.device.type != "cpu" for v in values):
        return False
    with torch.no_grad():
        torch.stack(values, out=memory)
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
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), torch and torch.default_generator.get_state().numpy()


def _same(a: tuple, b: tuple) -> bool:
    numpy_a, numpy_b = a[1], b[1]
    return (a[0] == b[0] and numpy_a[2:] == numpy_b[2:] and np.array_equal(numpy_a[1], numpy_b[1])
            and (a[2] is None) == (b[2] is None) and (a[2] is None or np.array_equal(a[2], b[2])))
