"""Writes golden.json: losses, gradients and parameters of PyTorch in float64 while it trains on random
batches. Weights, batches and labels come from PyTorch's generator, so they need not be stored. Run with
the directory of common.py, which holds the models, in PYTHONPATH: python golden.py > golden.json"""
import json

import torch
import torch.nn.functional as F

import common

BATCH, STEPS = 8, 20


def summary(v):
    v = v.detach().double().flatten()
    return {"sum": v.sum().item(), "abs": v.abs().sum().item(), "first": v[:4].tolist()}


def batch(step):
    torch.manual_seed(1000 + step)
    x = torch.empty(BATCH, 1, 28, 28).uniform_(0, 1)
    return x.double(), torch.randperm(1000)[:BATCH] % 10


out = []
for name in ("convnet", "mlp"):
    torch.manual_seed(7)
    model, _ = common.build(name)
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
        if step == 2:
            d["state3"] = {k: summary(v) for k, v in model.state_dict().items()}
    model.eval()
    x, y = batch(500)
    d["eval_loss"] = F.cross_entropy(model(x), y).item()
    out.append(d)
print(json.dumps(out))
