"""Trains with PyTorch DDP over gloo on the CPU: the other side of `go run ./bench`.

Rank 0 prints one JSON object with the fields of the command's results.
Needs torch and numpy.
"""
import argparse
import gzip
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

STARTED = float(os.environ.get("BENCH_STARTED", time.time()))


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--model", default="convnet", help="convnet, mlp or resnet18, unless --file is given")
    p.add_argument("--file", help="trainctl configuration with model.layers and dataset.options.shape")
    p.add_argument("--batch", type=int, default=100)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--warm-up", type=int, default=10)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--variant", choices=["contiguous", "channels-last", "compile"], default="contiguous")
    p.add_argument("--text", action="store_true", help="--file is a GPT-2: windows of random tokens, AdamW with decay of matrices")
    p.add_argument("--mnist", help="folder with the IDX files, packed or not")
    return p.parse_args()


def start_ranks(n):
    """Runs this script once per rank, with one thread each."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    shared = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(n),
                  OMP_NUM_THREADS="1", BENCH_STARTED=repr(STARTED))
    ranks = [subprocess.Popen([sys.executable] + sys.argv, env=dict(shared, RANK=str(r))) for r in range(n)]
    return max(abs(p.wait()) for p in ranks)


def conv_norm(nn, cin, cout, kernel, stride=1):
    return [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(cout)]


def convnet(nn):
    def block(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 5, padding=2), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(block(1, 16), block(16, 32), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def mlp(nn):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def resnet18(nn):
    """ResNet-18 with the stem for small images."""
    class Block(nn.Module):
        def __init__(self, cin, cout, stride):
            super().__init__()
            self.body = nn.Sequential(*conv_norm(nn, cin, cout, 3, stride), nn.ReLU(), *conv_norm(nn, cout, cout, 3))
            self.skip = nn.Sequential(*(conv_norm(nn, cin, cout, 1, stride) if stride > 1 or cin != cout else []))
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.body(x) + self.skip(x))

    layers, cin = conv_norm(nn, 3, 64, 3) + [nn.ReLU()], 64
    for i, cout in enumerate([64, 128, 256, 512]):
        layers += [Block(cin, cout, 2 if i else 1), Block(cout, cout, 1)]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


# The layers whose modules infer their input's size, or take positional arguments;
# all others are named as in torch.nn but for capitals and underscores.
LAYERS = {
    "conv2d": ("LazyConv2d", ["out_channels", "kernel_size"]), "linear": ("LazyLinear", ["out_features"]),
    "batchnorm1d": ("LazyBatchNorm1d", []), "batchnorm2d": ("LazyBatchNorm2d", []),
}


def network(nn, layers):
    """The modules of trainctl's model.layers; sizes are inferred at the first pass."""
    modules = {name.lower(): name for name in dir(nn)}

    class Residual(nn.Module):
        def __init__(self, body, shortcut):
            super().__init__()
            self.body, self.shortcut = body, shortcut

        def forward(self, x):
            return self.body(x) + self.shortcut(x)

    class LazyGroupNorm(nn.Module):  # torch.nn has none
        def __init__(self, num_groups, num_channels=None, **rest):
            super().__init__()
            self.arguments, self.norm = dict(rest, num_groups=num_groups), None

        def forward(self, x):
            if self.norm is None:
                self.norm = nn.GroupNorm(num_channels=x.shape[1], **self.arguments)
            return self.norm(x)

    def module(layer):
        arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in layer.items() if k not in ("type", "name")}
        if layer["type"] == "sequential":
            return network(nn, layer["layers"])
        if layer["type"] == "residual":
            return Residual(network(nn, layer["layers"]), network(nn, layer.get("shortcut", [])))
        if layer["type"] == "groupnorm":
            return LazyGroupNorm(**arguments)
        name, positional = LAYERS.get(layer["type"]) or (modules[layer["type"].replace("_", "")], [])
        return getattr(nn, name)(*[arguments.pop(k) for k in positional], **arguments)
    return nn.Sequential(*map(module, layers))


def gpt2(torch, keys, context):
    """GPT-2 of trainctl's [model] keys: pre-norm blocks, learned positions, output weights tied to the embedding."""
    nn, f = torch.nn, torch.nn.functional
    width, heads = keys["n_embd"], keys["n_head"]

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, t, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.Sequential(nn.LayerNorm(width), Attention())
            self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attention(x)
            return x + self.mlp(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(keys["vocab_size"], width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(keys["n_layer"])], nn.LayerNorm(width))
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, x):
            y = self.blocks(self.tokens(x) + self.positions.weight)
            return f.linear(y, self.tokens.weight).flatten(0, 1)
    return Model()


def from_file(torch, path):
    """The network of a configuration, and the shape of its images or the vocabulary and the context of its texts."""
    import tomllib
    with open(path, "rb") as f:
        config = tomllib.load(f)
    options = config["dataset"]["options"]
    if "tokenizer" in options:
        return gpt2(torch, config["model"], options["context"]), (config["model"]["vocab_size"], options["context"])
    shape = options["shape"]
    model = network(torch.nn, config["model"]["layers"])
    with torch.no_grad():
        model(torch.zeros(2, *shape))  # makes the lazy layers' parameters
    return model, shape


def digits(torch, folder):
    import numpy as np

    def read(name, header):
        path = os.path.join(folder, name)
        with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb") as f:
            return np.frombuffer(f.read(), np.uint8)[header:]
    x = torch.from_numpy(read("train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28).astype("float32") / 255)
    return x, torch.from_numpy(read("train-labels-idx1-ubyte", 8).astype("int64"))


def data(torch, args, shape):
    if args.mnist:
        return digits(torch, args.mnist)
    if args.text:
        vocabulary, context = shape
        return torch.randint(0, vocabulary, (2048, context)), torch.randint(0, vocabulary, (2048, context))
    shape, n = (shape, 2048) if shape else ((3, 32, 32), 512) if args.model == "resnet18" else ((1, 28, 28), 8192)
    return torch.randn(n, *shape), torch.randint(0, 10, (n,))


def optimizer_of(torch, model, args):
    if not args.text:
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def main(args):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    last = args.variant == "channels-last"
    model, shape = from_file(torch, args.file) if args.file else (globals()[args.model](torch.nn), None)
    if last:
        model = model.to(memory_format=torch.channels_last)
    model = DistributedDataParallel(model)
    call = torch.compile(model) if args.variant == "compile" else model
    optimizer = optimizer_of(torch, model, args)
    dataset = TensorDataset(*data(torch, args, shape))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=args.batch, sampler=sampler, drop_last=True)

    ends, first = [], None
    for epoch in range(1 << 30):
        sampler.set_epoch(epoch)
        for x, y in loader:
            if last:
                x = x.contiguous(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
                loss = torch.nn.functional.cross_entropy(call(x), y.flatten())
            loss.backward()
            optimizer.step()
            ends.append(time.time())
            first = first or ends[0] - STARTED
            if len(ends) == args.steps:
                break
        if len(ends) == args.steps:
            break

    counted = ends[args.warm_up - 1:]
    took = counted[-1] - counted[0]
    rss = torch.tensor([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024])
    dist.all_reduce(rss, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        steps = [b - a for a, b in zip(counted, counted[1:])]
        print(json.dumps({
            "samples_per_sec": len(steps) * args.batch * dist.get_world_size() / took,
            "step_ms_p50": statistics.median(steps) * 1e3, "to_first_step_s": first, "peak_rss_bytes": int(rss),
        }))
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # a thread of gloo's that still runs would abort the interpreter's end


if __name__ == "__main__":
    a = arguments()
    if "RANK" in os.environ:
        main(a)
    else:
        sys.exit(start_ranks(a.ranks))
