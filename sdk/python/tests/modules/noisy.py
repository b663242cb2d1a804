"""Map-style data sets without PyTorch."""

import os

import numpy as np


class Noisy:
    """Samples with a random transform."""

    targets = np.arange(60) % 3

    def __len__(self):
        return 60

    def __getitem__(self, i):
        return i + np.random.random(4).astype(np.float32), self.targets[i]


class Uneven(Noisy):
    def __getitem__(self, i):
        return np.zeros(4 + (i == 7), np.float32), 0


class Apart(Noisy):
    """Only sample 2, which the fingerprint does not cover, depends on the process."""

    def __getitem__(self, i):
        return np.full(4, os.getpid() if i == 2 else i, np.float32), 0


class Stream:
    def __iter__(self):
        yield np.zeros(4, np.float32), 0


def test():
    return Noisy()
