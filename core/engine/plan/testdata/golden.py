"""Writes golden.json: losses, gradients and parameters of PyTorch in float64 while it trains on random
batches. Weights, batches and labels come from PyTorch's generator, so they need not be stored. Run with
the directory of common.py, which holds the models, in PYTHONPATH: python golden.py > golden.json"""
import json
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

import common

BATCH, STEPS = 8, 20


def evaluate(model):
    model.eval()
    x, y = batch(500)
    loss = F.cross_entropy(model(x), y).item()
    model.train()
    return loss


class Block(nn.Module):
    """The residual block of the model "layers" in rig_test.go."""

    def __init__(self):
        super().__init__()
        for i, m in enumerate((nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.ReLU(), nn.BatchNorm2d(6))):
            self.add_module(str(i), m)
        self.downsample = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(4, 6, 1, bias=False))

    def forward(self, x):
        y = x
        for i in range(3):
            y = getattr(self, str(i))(y)
        return y + self.downsample(x)


def build(name):
    if name != "layers":
        return common.build(name)[0]
    return nn.Sequential(OrderedDict([
        ("0", nn.Conv2d(1, 4, 3, padding=1, bias=False)), ("1", nn.BatchNorm2d(4)), ("2", nn.GELU()), ("block", Block()), ("4", nn.ReLU()),
        ("5", nn.AdaptiveAvgPool2d(3)), ("6", nn.Flatten()), ("7", nn.LayerNorm(54)), ("8", nn.Linear(54, 16)), ("9", nn.Tanh()), ("10", nn.Linear(16, 10))]))


def summary(v):
    v = v.detach().double().flatten()
    return {"sum": v.sum().item(), "abs": v.abs().sum().item(), "first": v[:4].tolist()}


def batch(step):
    torch.manual_seed(1000 + step)
    x = torch.empty(BATCH, 1, 28, 28).uniform_(0, 1)
    return x.double(), torch.randperm(1000)[:BATCH] % 10


def half(name, dtype, whole):
    """Loss of the first batch in half precision, and how far each gradient is from the float64 one."""
    grads = []
    for low in (False, True):
        torch.manual_seed(7)
        model = build(name)
        x, y = batch(0)
        if not low:
            loss = F.cross_entropy(model.double()(x), y)
        elif whole:
            loss = F.cross_entropy(model.to(dtype)(x.to(dtype)).float(), y)
        else:
            with torch.autocast("cpu", dtype=dtype):
                loss = F.cross_entropy(model(x.float()), y)
        (loss * 1024).backward()
        grads.append({k: p.grad.double() / 1024 for k, p in model.named_parameters()})
    return {"loss": loss.item(), "off": {k: (grads[1][k] - grads[0][k]).norm().item() for k in grads[0]}}


HALF = {"f16": torch.float16, "bf16": torch.bfloat16}
out = []
for name in ("convnet", "mlp", "layers"):
    torch.manual_seed(7)
    model = build(name)
    model = model.double()
    arrival = []
    for key, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda p, key=key: arrival.append(key))
    opt = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    d = {"model": name, "losses": []}
    for step in range(STEPS):
        x, y = batch(step)
        opt.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        if step == 0:
            d["arrival"] = list(arrival)
            d["correct"] = int((logits.argmax(1) == y).sum())
            d["grads"] = {k: summary(p.grad) for k, p in model.named_parameters()}
        opt.step()
        d["losses"].append(loss.item())
        if step == 3:
            d["eval_loss4"] = evaluate(model)
        if step == 2:
            d["state3"] = {k: summary(v) for k, v in model.state_dict().items()}
    d["eval_loss20"] = evaluate(model)
    d["half"] = {f"{kind} {t}": half(name, HALF[t], kind == "O3") for kind in ("autocast", "O3") for t in HALF}
    out.append(d)
print(json.dumps(out))
