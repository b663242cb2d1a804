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
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the rank computes on these cores

    def sample(self, split: str, index: int, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """One sample. Its random numbers depend on seed, epoch and index alone."""
        _seed(seed, epoch, index)
        return _pair(self.sets[split][index], index)

    def read(self, split: str, indices, seed: int, epoch: int, input: np.ndarray, target: np.ndarray):
        """Writes samples into arrays; epoch is -1 for samples that do not depend on it."""
        data = self.sets[split]
        if batched := getattr(data, "__getitems__", None):
            _seed(seed, epoch, int(indices[0]) if len(indices) else 0)
            found = list(batched([int(i) for i in indices]))
            if len(found) != len(indices):
                raise Error(f"__getitems__ returned {len(found)} samples for {len(indices)} indices: return one for each")
            samples = enumerate(found)
        else:
            samples = ((k, self._one(data, int(i), seed, epoch)) for k, i in enumerate(indices))
        for k, sample in samples:
            x, y = _pair(sample, indices[k])
            if x.shape != input.shape[1:] or y.shape != target.shape[1:]:
                raise CorruptData(f"sample {indices[k]} has an input of shape {x.shape} and a target of {y.shape}, the first sample {input.shape[1:]} and {target.shape[1:]}: make all samples the same size, for example with a transform")
            input[k], target[k] = x, y

    def _one(self, data, index: int, seed: int, epoch: int):
        _seed(seed, epoch, index)
        return data[index]


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
