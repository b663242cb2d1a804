"""MNIST as users write it for PyTorch."""

import gzip
import os

import torch
from torch.utils.data import Dataset


class MNIST(Dataset):
    """MNIST as torchvision's, with ToTensor."""

    classes = [str(i) for i in range(10)]

    def __init__(self, root, train=True, limit=0):
        name = "train" if train else "t10k"
        pixels = self.read(os.path.join(root, f"{name}-images-idx3-ubyte.gz"), 16)
        self.data = pixels.reshape(-1, 1, 28, 28)[: limit or None]
        self.targets = self.read(os.path.join(root, f"{name}-labels-idx1-ubyte.gz"), 8).long()[: limit or None]

    @staticmethod
    def read(path, header):
        with gzip.open(path) as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8, offset=header)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i].float().div(255), int(self.targets[i])
