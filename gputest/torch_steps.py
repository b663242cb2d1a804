"""Training steps of PyTorch DDP on one GPU: the other side of gputest/run.sh.

    torch_steps.py convnet | resnet50

Prints samples per second: the ConvNet in eager float32 with 100 images a step,
ResNet-50 with 256 images of 224x224 in bfloat16 autocast and channels-last.
Each step takes a batch from the host's pinned memory, copied on a stream of its
own while the step before computes, as trainctl does. Needs torch alone.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


def convnet():
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 5, padding=2), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))

    return nn.Sequential(block(1, 16), block(16, 32), nn.Flatten(), nn.Linear(7 * 7 * 32, 10))


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for b in range(blocks):
            layers.append(Bottleneck(channels, width, stride if b == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Prefetcher:
    """Copies the next batch to the GPU while the current one is used."""

    def __init__(self, batch, shape, classes, kept=4):
        self.host = [(torch.randn(batch, *shape).pin_memory(), torch.randint(0, classes, (batch,)).pin_memory()) for _ in range(kept)]
        self.stream = torch.cuda.Stream()
        self.taken = 0
        self.copy()

    def copy(self):
        images, labels = self.host[self.taken % len(self.host)]
        self.taken += 1
        with torch.cuda.stream(self.stream):
            self.next = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)

    def take(self):
        compute = torch.cuda.current_stream()
        compute.wait_stream(self.stream)
        current = self.next
        for t in current:
            t.record_stream(compute)
        self.copy()
        return current


def main():
    if not torch.cuda.is_available():
        sys.exit("torch %s sees no GPU" % torch.__version__)
    small = sys.argv[1] == "convnet"
    batch, shape, classes, warm, steps = (100, (1, 28, 28), 10, 50, 1000) if small else (256, (3, 224, 224), 1000, 10, 60)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29571")
    dist.init_process_group("nccl", rank=0, world_size=1)
    torch.backends.cudnn.benchmark = not small
    model = (convnet() if small else resnet50()).cuda()
    if not small:
        model = model.to(memory_format=torch.channels_last)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    batches = Prefetcher(batch, shape, classes)
    for step in range(warm + steps):
        if step == warm:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        x, y = batches.take()
        if not small:
            x = x.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=not small):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    print("%.1f" % (steps * batch / (time.perf_counter() - begin)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
