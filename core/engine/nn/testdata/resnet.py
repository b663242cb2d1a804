"""Writes resnet.json: what PyTorch computes with ResNets of given weights, in float64. Weights, images and
labels come from PyTorch's generator, so they need not be stored. Also the sums of torchvision's initialisation. Run
with the directory of common.py, which holds the models, in PYTHONPATH: python resnet.py > resnet.json"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import common


def fill(model):
    """The same weights as fillState in resnet_test.go: one seed for each tensor of the state dict."""
    for i, (key, v) in enumerate(model.state_dict().items()):
        torch.manual_seed(i)
        w = torch.empty(v.shape, dtype=torch.float32)
        if key.endswith("num_batches_tracked"):
            continue
        if v.dim() > 1:
            bound = math.sqrt(6 / v[0].numel())
            w.uniform_(-bound, bound)
        elif key.endswith(("running_var", "weight")):
            w.uniform_(0.5, 1.5)
        else:
            w.uniform_(-0.5, 0.5)
        v.copy_(w)


def batch(n, side):
    torch.manual_seed(1000)
    x = torch.empty(n, 3, side, side).uniform_(-2, 2)
    return x.double(), torch.randperm(1000)[:n] % 10


def summary(v):
    v = v.detach().double().flatten()
    return {"sum": v.sum().item(), "abs": v.abs().sum().item(), "first": v[:4].tolist()}


def initialised(model, seed):
    """torchvision/models/resnet.py: layers start with their defaults, then all convolutions are drawn again."""
    torch.manual_seed(seed)
    model = model()
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return {k: summary(v) for k, v in model.state_dict().items() if v.dtype == torch.float32}


MODELS = {
    "resnet18-cifar": (lambda: common.ResNet18(), 4, 16),
    "resnet18-imagenet": (lambda: common.ResNet18(small=False), 2, 64),
    "resnet50-imagenet": (lambda: common.ResNet50(10), 2, 64),
}
out = []
for name, (build, n, side) in MODELS.items():
    model = build().double()
    with torch.no_grad():
        fill(model)
    x, y = batch(n, side)
    arrival = []
    for key, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda _, key=key: arrival.append(key))
    logits = model.eval()(x)
    entry = {"model": name, "batch": n, "side": side, "names": list(model.state_dict()), "logits": logits.flatten().tolist()}
    if name == "resnet18-cifar":
        loss = F.cross_entropy(model.train()(x), y)
        loss.backward()
        entry |= {"loss": loss.item(), "grads": {k: summary(p.grad) for k, p in model.named_parameters()}, "arrival": arrival}
        entry["running"] = {k: summary(v) for k, v in model.named_buffers() if v.is_floating_point()}
        entry["init"] = initialised(build, 42)
    out.append(entry)
print(json.dumps(out))
