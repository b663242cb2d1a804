"""Reads a run of mnist-ddp.toml with PyTorch alone and prints what it finds as JSON.

    python load_run.py RUN_DIR MNIST_DIR

model.safetensors goes into the ConvNet below with strict=True and is evaluated on
MNIST's test images; tensorboard/ is read by TensorBoard's own EventAccumulator.
"""
import gzip
import json
import os
import sys

import numpy as np
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn


class ConvNet(nn.Module):
    """Two blocks of convolution, batch norm, ReLU and pooling, and a linear layer."""

    def __init__(self):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 5, padding=2), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))

        self.layer1, self.layer2, self.fc = block(1, 16), block(16, 32), nn.Linear(7 * 7 * 32, 10)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(x)).flatten(1))


def idx(path, header):
    with gzip.open(path) as f:
        return np.frombuffer(f.read(), np.uint8, offset=header)


def main(run, data):
    newest = os.path.realpath(os.path.join(run, "checkpoints", "latest"))
    if os.path.isfile(newest):  # a file that names the directory
        with open(newest) as f:
            newest = os.path.join(run, "checkpoints", f.read().strip())
    net = ConvNet()
    net.load_state_dict(load_file(os.path.join(newest, "model.safetensors")), strict=True)
    net.eval()
    x = torch.from_numpy(idx(os.path.join(data, "t10k-images-idx3-ubyte.gz"), 16).reshape(-1, 1, 28, 28) / np.float32(255))
    y = torch.from_numpy(idx(os.path.join(data, "t10k-labels-idx1-ubyte.gz"), 8).astype(np.int64))
    torch.set_num_threads(1)
    with torch.no_grad():
        out = torch.cat([net(c) for c in x.split(500)])
    events = EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    scalars = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    print(json.dumps({
        "accuracy": (out.argmax(1) == y).double().mean().item(),
        "loss": nn.functional.cross_entropy(out.double(), y).item(),
        "scalars": scalars,
    }))


if __name__ == "__main__":
    main(*sys.argv[1:])
