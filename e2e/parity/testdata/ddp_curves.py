"""Makes pytorch-fp64-curves.json: losses of PyTorch's DistributedDataParallel in float64.

    python ddp_curves.py MNIST_DIR > pytorch-fp64-curves.json

100 steps over gloo on CPUs, per-rank batches of 32, SGD with rate 0.005 and momentum
0.9, DistributedSampler seeded as the model; losses are means over ranks.
"""
import json
import os
import socket
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from load_run import ConvNet, idx


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 512), nn.Linear(512, 256), nn.Linear(256, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


def worker(rank, world, port, model, seed, data, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(seed)
    net = nn.parallel.DistributedDataParallel({"convnet": ConvNet, "mlp": MLP}[model]().double())
    x = torch.from_numpy(idx(os.path.join(data, "train-images-idx3-ubyte.gz"), 16).reshape(-1, 1, 28, 28) / np.float32(255)).double()
    y = torch.from_numpy(idx(os.path.join(data, "train-labels-idx1-ubyte.gz"), 8).astype(np.int64))
    samples = TensorDataset(x, y)
    sampler = DistributedSampler(samples, seed=seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    losses = []
    for bx, by in DataLoader(samples, batch_size=32, sampler=sampler):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(bx), by)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) == 100:
            break
    means = torch.stack(losses)
    dist.all_reduce(means)
    if rank == 0:
        with open(path, "w") as f:
            json.dump((means / world).tolist(), f)
    dist.destroy_process_group()


def main(data):
    curves = {}
    for model in ("convnet", "mlp"):
        for world in (1, 2, 3):
            for seed in (1, 7, 42):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", 0))
                    port = s.getsockname()[1]
                path = f"/tmp/curve-{os.getpid()}.json"
                mp.spawn(worker, (world, port, model, seed, data, path), nprocs=world)
                with open(path) as f:
                    curves[f"{model}-w{world}-seed{seed}"] = json.load(f)
    os.remove(path)
    json.dump(curves, sys.stdout, sort_keys=True)


if __name__ == "__main__":
    main(sys.argv[1])
