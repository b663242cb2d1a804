"""Writes golden.json: how PyTorch initialises models. Run with the directory of common.py, which
holds the models, in PYTHONPATH: python golden.py > golden.json"""
import hashlib
import json

import torch
import torch.nn as nn

import common

BUILD = {
    "convnet": common.ConvNet,
    "mlp": common.MLP,
    "layers": lambda: nn.Sequential(
        nn.Conv2d(1, 4, (3, 5), stride=(1, 2), groups=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6 * 24 * 10, 12), nn.LayerNorm(12), nn.Linear(12, 10, bias=False)),
}
out = []
for name, build in BUILD.items():
    for seed in (0, 42):
        torch.manual_seed(seed)
        tensors = []
        for key, v in build().state_dict().items():
            raw = v.contiguous().numpy().tobytes()
            tensors.append({"name": key, "shape": list(v.shape), "sha256": hashlib.sha256(raw).hexdigest()})
        out.append({"model": name, "seed": seed, "tensors": tensors})
print(json.dumps(out, indent=1))
