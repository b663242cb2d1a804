"""Trains a small network with PyTorch DDP over gloo, elastically: the other side of `go run ./bench/elastic`.

Rank 0 appends a line to the file of the first argument for each step: its number, the time of its end, and
the process. It saves every 100 steps, and after a change of the workers all continue from there, in new processes.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAVE_EVERY = 100


def convnet():
    def block(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 5, padding=2), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(block(1, 16), block(16, 32), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def main():
    log, saved = sys.argv[1], sys.argv[1] + ".pt"
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = convnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = 0
    if os.path.exists(saved):
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    ddp = DistributedDataParallel(model)
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    while True:
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(images), labels).backward()
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            if step % SAVE_EVERY == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, saved + ".new")
                os.replace(saved + ".new", saved)
            with open(log, "a") as f:
                f.write(f"{step} {time.time():.6f} {os.getpid()}\n")


if __name__ == "__main__":
    main()
