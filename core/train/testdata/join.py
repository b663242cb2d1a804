"""Writes join.json: what torch's DistributedDataParallel makes of uneven inputs with join().

Run as: python join.py > join.json
Three ranks train in float64 on 5, 3 and 4 batches of two samples. Sample i is sin(16 i + k) in float32, of class i mod 3;
rank r takes samples r, r + 3, ...; parameter p starts as cos(i + 10 p) / 4.
"""
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

COUNTS, BATCH = [5, 3, 4], 2


def sample(i):
    return torch.sin(torch.arange(16, dtype=torch.float64) + 16 * i).float().double().reshape(1, 4, 4)


def model():
    m = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    with torch.no_grad():
        for n, p in enumerate(m.parameters()):
            p.copy_((torch.cos(torch.arange(p.numel(), dtype=torch.float64) + 10 * n) / 4).reshape(p.shape))
    return m


def train(rank, divide, out):
    world = len(COUNTS)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29631")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    ddp = torch.nn.parallel.DistributedDataParallel(model())
    opt = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    with ddp.join(divide_by_initial_world_size=divide):
        for b in range(COUNTS[rank]):
            indices = [rank + world * (b * BATCH + k) for k in range(BATCH)]
            loss = torch.nn.functional.cross_entropy(ddp(torch.stack([sample(i) for i in indices])), torch.tensor([i % 3 for i in indices]))
            opt.zero_grad()
            loss.backward()
            opt.step()
    if rank == 1:  # the one that ran out first
        torch.save(ddp.module.state_dict(), out)
    dist.destroy_process_group()


if __name__ == "__main__":
    result = {}
    for divide in (True, False):
        mp.spawn(train, (divide, "/tmp/join.pt"), len(COUNTS))
        result[str(divide).lower()] = {k: v.flatten().tolist() for k, v in torch.load("/tmp/join.pt").items()}
    json.dump(result, sys.stdout, indent=1)
    print()
