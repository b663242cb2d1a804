"""Writes unused.json: what torch's DistributedDataParallel makes of parameters that a rank does not use.

Run as: python unused.py > unused.json
Two ranks train in float64 with find_unused_parameters. TAKEN says which of them take the inner layer in which step; it is
what trainctl draws for seed 42. Samples and parameters are those of join.py, with batches of two.
"""
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TAKEN = [[True, False], [False, True], [True, False], [False, False], [False, False], [False, True], [False, True], [True, False], [True, False], [True, True]]
BATCH = 2


def sample(i):
    return torch.sin(torch.arange(16, dtype=torch.float64) + 16 * i).float().double()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, a, b in (("1", 16, 6), ("2", 6, 6), ("3", 6, 3)):
            layer = torch.nn.Linear(a, b).double()
            self.add_module(name, torch.nn.Sequential(layer) if name == "2" else layer)
        with torch.no_grad():
            for n, p in enumerate(self.parameters()):
                p.copy_((torch.cos(torch.arange(p.numel(), dtype=torch.float64) + 10 * n) / 4).reshape(p.shape))

    def forward(self, x, taken):
        layers = dict(self.named_children())
        x = layers["1"](x)
        if taken:
            x = torch.tanh(layers["2"](x)) + x
        return layers["3"](x)


def optimizer(name, params):
    if name == "sgd":
        return torch.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.25, weight_decay=0.01)
    return torch.optim.Adam(params, lr=0.05, weight_decay=0.01)


def train(rank, name, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29632")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    ddp = torch.nn.parallel.DistributedDataParallel(Model(), find_unused_parameters=True)
    opt = optimizer(name, ddp.parameters())
    for step, taken in enumerate(TAKEN):
        indices = [rank + 2 * (step * BATCH + k) for k in range(BATCH)]
        loss = torch.nn.functional.cross_entropy(ddp(torch.stack([sample(i) for i in indices]), taken[rank]), torch.tensor([i % 3 for i in indices]))
        opt.zero_grad()
        loss.backward()
        opt.step()
    if rank == 1:
        torch.save(ddp.module.state_dict(), out)
    dist.destroy_process_group()


if __name__ == "__main__":
    models = {}
    for name in ("sgd", "adam"):
        mp.spawn(train, (name, "/tmp/unused.pt"), 2)
        models[name] = {k: v.flatten().tolist() for k, v in torch.load("/tmp/unused.pt").items()}
    json.dump({"taken": TAKEN, "models": models}, sys.stdout, indent=1)
    print()
