"""Writes configurations.json: what PyTorch makes of whole configurations, in float64.

Run as: python configurations.py > configurations.json

A case is settings by the names of trainctl's structures. Ranks are emulated: each passes its batches through the model with
buffers of its own, and gradients are averaged as DistributedDataParallel does. Element k of sample i is a hash of both. Its
class is (7 i + 3) mod classes, -100 for every gap-th sample; targets of regressions are the elements of sample i + 1000.
"""
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import lr_scheduler
from torch.utils.data.distributed import DistributedSampler


def conv(out, kernel, **more):
    return dict(Type="conv2d", OutChannels=out, KernelSize=[kernel, kernel] if isinstance(kernel, int) else kernel, **more)


def pool(kind, kernel, **more):
    return dict(Type=kind, KernelSize=[kernel, kernel] if isinstance(kernel, int) else kernel, **more)


def linear(out, **more):
    return dict(Type="linear", OutFeatures=out, **more)


def layer(kind, **more):
    return dict(Type=kind, **more)


RELU, FLAT, NORM = layer("relu"), layer("flatten"), layer("batchnorm2d")
CASES = [
    dict(Name="strides, dilation, groups and micro-steps", World=3, Data=dict(Shape=[4, 9, 7], Classes=5, Train=23, Test=11),
         Model=dict(Layers=[conv(6, 3, Stride=[2, 1], Padding=[1, 2], Groups=2), layer("batchnorm2d", Momentum=0.3, Eps=1e-3), RELU,
                            pool("maxpool2d", 3, Stride=[2, 2], Padding=[1, 1], CeilMode=True), conv(4, [2, 3], Dilation=[1, 2], Padding=[0, 1], Bias=False),
                            layer("tanh"), FLAT, linear(5)]),
         Train=dict(PerRankBatch=2, AccumulateSteps=3, Epochs=2, MaxNorm=0.5), Optimizer=dict(Name="sgd", LR=0.1, Momentum=0.9, Nesterov=True, WeightDecay=0.01),
         Schedule=dict(Name="cosine", Unit="step", WarmupSteps=2)),
    dict(Name="summed micro-steps with buffers of their own", World=2, Data=dict(Shape=[3, 6, 8], Classes=4, Train=21, Test=7),
         Model=dict(Layers=[layer("residual", Name="block", Layers=[conv(6, 3, Padding=[1, 1], Stride=[2, 2]), NORM, RELU, conv(6, 1)], Shortcut=[conv(6, 2, Stride=[2, 2], Name="down")]),
                            RELU, pool("avgpool2d", 2, Padding=[1, 0], CeilMode=True, CountPad=False), FLAT, linear(4, Name="head")]),
         Train=dict(PerRankBatch=3, AccumulateSteps=2, AccumulateMean=False, Epochs=3, MaxSteps=5, EvalBatch=2),
         DDP=dict(BroadcastBuffers=False, PredivideFactor=1.7), Optimizer=dict(Name="adam", LR=0.01, AMSGrad=True, WeightDecay=0.1), Schedule=dict(Name="step", StepSize=1, Gamma=0.5)),
    dict(Name="synchronised norms that join", World=3, Data=dict(Shape=[2, 5, 5], Classes=3, Train=16, Test=8),
         Model=dict(Layers=[conv(3, 3), NORM, layer("gelu"), layer("layernorm", NormShape=[3, 3]), FLAT, linear(8), layer("gelu", Approximate="tanh"),
                            layer("layernorm", NormShape=[8], Bias=False), linear(3)]),
         Train=dict(PerRankBatch=1, Epochs=2), Sampler=dict(Pad="none"), DDP=dict(Uneven="join", DivideByInitial=False, SyncBatchNorm=True),
         Optimizer=dict(Name="adamw", LR=0.003, Betas=[0.8, 0.95]), Schedule=dict(Name="multistep", Unit="step", Milestones=[2, 3, 9], Gamma=0.5)),
    dict(Name="micro-steps that join", World=3, Data=dict(Shape=[2, 4, 4], Classes=3, Train=13, Test=5),
         Model=dict(Layers=[conv(3, 3), NORM, RELU, FLAT, linear(3)]), Train=dict(PerRankBatch=1, AccumulateSteps=3, Epochs=2, MaxNorm=1.0),
         Sampler=dict(Pad="none"), DDP=dict(Uneven="join"), Optimizer=dict(Name="sgd", LR=0.05, Momentum=0.5), Schedule={}),
    dict(Name="fewer samples than ranks", World=4, Data=dict(Shape=[6], Classes=3, Train=2, Test=3),
         Model=dict(Layers=[linear(5), layer("sigmoid"), layer("residual", Layers=[linear(5, Bias=False), layer("tanh")]), linear(3)]),
         Train=dict(PerRankBatch=2, Epochs=6, EvalEvery=2), Optimizer=dict(Name="sgd", LR=0.2, Maximize=True), Schedule=dict(Name="linear", StartFactor=0.5, EndFactor=1.0, TotalIters=4)),
    dict(Name="frozen layers and a short batch", World=2, Data=dict(Shape=[2, 6, 6], Classes=4, Train=17, Test=9),
         Model=dict(Layers=[conv(4, 3), layer("batchnorm2d", Momentum=1.0), RELU, conv(4, 3, Name="second"), NORM, RELU, FLAT, linear(4)], Freeze=["1", "second.weight"]),
         Train=dict(PerRankBatch=3, Epochs=2, EvalBatch=4), Sampler=dict(DropLast=True, Shuffle=False), Optimizer=dict(Name="sgd", LR=0.05, Momentum=0.9, Dampening=0.3, WeightDecay=0.1), Schedule={}),
    dict(Name="windows larger than the image", World=1, Data=dict(Shape=[2, 6, 6], Classes=4, Train=9, Test=4),
         Model=dict(Layers=[conv(4, 2), pool("avgpool2d", 3, Stride=[1, 1]), NORM, RELU, pool("maxpool2d", 4, Stride=[3, 3], CeilMode=True),
                            conv(3, 1, Padding=[1, 1]), pool("avgpool2d", 5, Stride=[3, 3], Padding=[1, 1], CeilMode=True), FLAT, linear(4)]),
         Train=dict(PerRankBatch=4, Epochs=2), Optimizer=dict(Name="sgd", LR=0.1), Schedule={}),
    dict(Name="regression on means of any size", World=2, Data=dict(Shape=[2, 5, 4], Outputs=3, Train=14, Test=5),
         Model=dict(Layers=[conv(3, 3, Padding=[1, 1]), layer("adaptive_avgpool2d", OutputSize=[3, 7]), linear(4), layer("tanh"), layer("adaptive_avgpool2d", OutputSize=[2, 3]), FLAT, linear(3)]),
         Train=dict(PerRankBatch=5, Epochs=3, MaxNorm=0.1, EvalEvery=0), Sampler=dict(Seed=99), Optimizer=dict(Name="adam", LR=0.02, Eps=1e-3), Schedule=dict(Name="cosine", Unit="step", TMax=2, EtaMin=0.001)),
    dict(Name="the shortest rank ends the epoch", World=3, Data=dict(Shape=[5], Classes=6, Train=13, Test=6), Model=dict(Name="mlp", Hidden=[7, 4]),
         Train=dict(PerRankBatch=1, Epochs=2), Sampler=dict(Pad="none", Seed=5), DDP=dict(Uneven="stop"), Optimizer=dict(Name="adamw", LR=0.01, Maximize=True, AMSGrad=True), Schedule={}),
    dict(Name="samples without a class", World=2, Data=dict(Shape=[7], Classes=3, Train=24, Test=13, Gap=5), Model=dict(Name="mlp", Hidden=[6]),
         Train=dict(PerRankBatch=4, AccumulateSteps=2, Epochs=1, EvalBatch=3), Optimizer=dict(Name="sgd", LR=0.1, Momentum=0.9), Schedule={}),
    dict(Name="norms of features, signals and groups", World=2, Data=dict(Shape=[6, 5], Classes=3, Train=22, Test=9),
         Model=dict(Layers=[layer("batchnorm1d", Eps=1e-3), linear(4), layer("groupnorm", NumGroups=3), RELU, layer("groupnorm", NumGroups=6, Affine=False), FLAT, linear(9),
                            layer("batchnorm1d", Momentum=0.3), RELU, layer("groupnorm", NumGroups=3, Eps=1e-2), linear(7), layer("batchnorm1d", Affine=False), linear(3)]),
         Train=dict(PerRankBatch=4, Epochs=3), Optimizer=dict(Name="sgd", LR=0.1, Momentum=0.9), Schedule={}),
    dict(Name="synchronised norms of features that join", World=3, Data=dict(Shape=[7, 3], Classes=3, Train=16, Test=8),
         Model=dict(Layers=[layer("batchnorm1d"), FLAT, linear(8), layer("batchnorm1d"), RELU, linear(3)]),
         Train=dict(PerRankBatch=2, Epochs=2), Sampler=dict(Pad="none"), DDP=dict(Uneven="join", DivideByInitial=False, SyncBatchNorm=True),
         Optimizer=dict(Name="adamw", LR=0.01), Schedule={}),
    dict(Name="batch norms in evaluation mode", World=2, Data=dict(Shape=[2, 6, 6], Classes=4, Train=17, Test=9),
         Model=dict(Layers=[conv(4, 3), NORM, RELU, conv(4, 3, Name="second"), layer("batchnorm2d", Name="plain", Affine=False), RELU, FLAT, linear(5), layer("batchnorm1d", Name="last", Eps=1e-2), RELU, linear(4)],
                    FreezeBatchNorm=True, Freeze=["last.weight"]),
         Train=dict(PerRankBatch=3, Epochs=3, AccumulateSteps=2), Optimizer=dict(Name="sgd", LR=0.1, Momentum=0.9), Schedule={}),
]


def pick(more, **names):
    """Arguments of a PyTorch module from those of a layer."""
    return {theirs: more[ours] for ours, theirs in names.items() if ours in more}


class Sum(nn.Module):
    def __init__(self, c, shape):
        super().__init__()
        self.ways = [], []
        for way, layers in zip(self.ways, (c["Layers"], c.get("Shortcut", []))):
            inner = shape
            for i, l in enumerate(layers):
                name = l.get("Name", str(i))
                module, inner = build(l, inner)
                self.add_module(name, module)
                way.append(name)

    def forward(self, x):
        y, z = x, x
        for name in self.ways[0]:
            y = self.get_submodule(name)(y)
        for name in self.ways[1]:
            z = self.get_submodule(name)(z)
        return y + z


def module(c, s):
    kind = c["Type"]
    if kind == "conv2d":
        return nn.Conv2d(s[0], c["OutChannels"], c["KernelSize"], **pick(c, Stride="stride", Padding="padding", Dilation="dilation", Groups="groups", Bias="bias"))
    if kind == "linear":
        return nn.Linear(s[-1], c["OutFeatures"], **pick(c, Bias="bias"))
    if kind in ("batchnorm1d", "batchnorm2d"):
        make = nn.BatchNorm1d if kind == "batchnorm1d" else nn.BatchNorm2d
        return make(s[0], **pick(c, Momentum="momentum", Eps="eps", Affine="affine"))
    if kind == "groupnorm":
        return nn.GroupNorm(c["NumGroups"], s[0], **pick(c, Eps="eps", Affine="affine"))
    if kind == "layernorm":
        return nn.LayerNorm(c["NormShape"], **pick(c, Bias="bias"))
    if kind in ("maxpool2d", "avgpool2d"):
        make = nn.MaxPool2d if kind == "maxpool2d" else nn.AvgPool2d
        return make(c["KernelSize"], **pick(c, Stride="stride", Padding="padding", CeilMode="ceil_mode", CountPad="count_include_pad"))
    if kind == "adaptive_avgpool2d":
        return nn.AdaptiveAvgPool2d(c["OutputSize"])
    if kind == "gelu":
        return nn.GELU(**pick(c, Approximate="approximate"))
    return {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "flatten": nn.Flatten}[kind]()


def build(c, shape):
    m = Sum(c, shape) if c["Type"] == "residual" else module(c, shape)
    with torch.no_grad():
        return m, list(m.eval()(torch.zeros([1] + shape)).shape[1:])


def model(c, shape, outputs):
    layers = c.get("Layers")
    if not layers:
        layers = [FLAT]
        for i, width in enumerate(c["Hidden"] + [outputs]):
            layers += [linear(width, Name=f"fc{i + 1}"), RELU]
        layers.pop()
    net = nn.Sequential()
    for i, l in enumerate(layers):
        m, shape = build(l, shape)
        net.add_module(l.get("Name", str(i)), m)
    return net.train()


def hashed(i, shape):
    n = torch.Size(shape).numel()
    h = ((i * 65537 + torch.arange(n, dtype=torch.int64) + 1) * 2654435761) % 2**32 // 256
    return (h.double() / 2**23 - 1).reshape(shape)


def split(d, n):
    x = torch.stack([hashed(i, d["Shape"]) for i in range(n)])
    if "Outputs" in d:
        return x, torch.stack([hashed(i + 1000, [d["Outputs"]]) for i in range(n)])
    return x, torch.tensor([-100 if "Gap" in d and i % d["Gap"] == 0 else (7 * i + 3) % d["Classes"] for i in range(n)])


def optimizer(o, params):
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[o["Name"]]
    return kind(params, lr=o["LR"], **pick(o, Momentum="momentum", Dampening="dampening", Nesterov="nesterov", WeightDecay="weight_decay",
                                           Betas="betas", Eps="eps", AMSGrad="amsgrad", Maximize="maximize"))


def rates(s, lr, per_epoch, total):
    """The learning rates of all steps."""
    unit = 1 if s.get("Unit") == "step" else per_epoch
    length = -(-total // unit)
    make = {
        None: lambda o: lr_scheduler.ConstantLR(o, 1.0),
        "step": lambda o: lr_scheduler.StepLR(o, s["StepSize"], s["Gamma"]),
        "multistep": lambda o: lr_scheduler.MultiStepLR(o, s["Milestones"], s["Gamma"]),
        "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, s.get("TMax", length), s.get("EtaMin", 0)),
        "linear": lambda o: lr_scheduler.LinearLR(o, s["StartFactor"], s["EndFactor"], s.get("TotalIters", length)),
    }[s.get("Name")]
    main, warm = (torch.optim.SGD([torch.zeros(1)], lr=r) for r in (lr, 1.0))
    slow, fast = make(main), lr_scheduler.LinearLR(warm, total_iters=s.get("WarmupSteps", 0) or 1) if s.get("WarmupSteps") else None
    out = []
    for t in range(total):
        out.append(main.param_groups[0]["lr"] * warm.param_groups[0]["lr"])
        main.step(), warm.step()
        if (t + 1) % unit == 0:
            slow.step()
        if fast:
            fast.step()
    return out


def shards(c, epoch):
    s, n, world = c.get("Sampler", {}), c["Data"]["Train"], c["World"]
    options = dict(shuffle=s.get("Shuffle", True), seed=s.get("Seed", 42), drop_last=s.get("DropLast", False))
    if s.get("Pad") == "none":
        whole = DistributedSampler(range(n), 1, 0, **options)
        whole.set_epoch(epoch)
        return [list(whole)[r::world] for r in range(world)]
    samplers = [DistributedSampler(range(n), world, r, **options) for r in range(world)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    return [list(sampler) for sampler in samplers]


class Job:
    def __init__(self, c):
        self.c, self.world, self.ddp, self.train = c, c["World"], c.get("DDP", {}), c["Train"]
        self.data = c["Data"]
        self.x, self.y = split(self.data, self.data["Train"])
        torch.manual_seed(42)
        self.net = model(c["Model"], self.data["Shape"], self.data.get("Classes") or self.data["Outputs"]).double()
        for name, p in self.net.named_parameters():
            p.requires_grad_(not any(name == f or name.startswith(f + ".") for f in c["Model"].get("Freeze", [])))
        if c["Model"].get("FreezeBatchNorm"):
            for name, v in self.net.named_buffers():  # as startStatistics does
                if v.dim():
                    i = torch.arange(len(v)).double()
                    v.copy_(0.1 * i - 0.2 if name.endswith("mean") else 0.5 + 0.25 * i)
        self.learn()
        self.params = [p for p in self.net.parameters() if p.requires_grad]
        self.buffers = [self.own() for _ in range(self.world)]
        self.keeper = 0  # the rank whose buffers count
        self.result = dict(losses=[], norms=[], evals=[])

    def learn(self):
        self.net.train()
        if self.c["Model"].get("FreezeBatchNorm"):
            for m in self.net.modules():
                if isinstance(m, nn.modules.batchnorm._BatchNorm):
                    m.eval()

    def own(self):
        return {k: v.clone() for k, v in self.net.named_buffers()}

    def use(self, rank):
        for k, v in self.net.named_buffers():
            v.copy_(self.buffers[rank][k])

    def loss(self, out, y):
        return F.cross_entropy(out, y) if "Classes" in self.data else F.mse_loss(out, y)

    def apart(self, parts):
        """Gradients of every rank, and its loss."""
        for rank, part in enumerate(parts):
            if not part:
                continue
            self.use(rank)
            total, grads, loss = sum(map(len, part)), 0, 0
            for batch in part:
                share = len(batch) / total
                l = self.loss(self.net(self.x[batch]), self.y[batch])
                g = torch.autograd.grad(l * (share if self.train.get("AccumulateMean", True) else 1), self.params)
                grads, loss = [a + b for a, b in zip(grads, g)] if grads else g, loss + l.item() * share
            self.buffers[rank] = self.own()
            yield grads, loss

    def together(self, parts):
        """The same with batch statistics over all ranks, for one batch each."""
        self.use(self.keeper)
        batches = [part[0] for part in parts if part]
        losses = [self.loss(out, self.y[b]) for b, out in zip(batches, self.net(self.x[sum(batches, [])]).split([len(b) for b in batches]))]
        grads = torch.autograd.grad(sum(losses), self.params)
        self.buffers = [self.own() for _ in parts]
        yield grads, losses[0].item()
        for l in losses[1:]:
            yield [torch.zeros_like(g) for g in grads], l.item()

    def step(self, parts, opt, lr):
        active = [r for r, part in enumerate(parts) if part]
        join = self.ddp.get("Uneven") == "join"
        if join:
            self.keeper = active[-1]
        if self.ddp.get("BroadcastBuffers", True):
            self.buffers = [dict(self.buffers[self.keeper]) for _ in parts]
        each = list((self.together if self.ddp.get("SyncBatchNorm") else self.apart)(parts))
        before = self.ddp.get("PredivideFactor") or (self.world if self.ddp.get("DivideByInitial", True) else len(active))
        after = before / self.world if "PredivideFactor" in self.ddp else 1
        for i, p in enumerate(self.params):
            p.grad = sum(g[i] / before for g, _ in each) * after
        if "MaxNorm" in self.train:
            self.result["norms"].append(nn.utils.clip_grad_norm_(self.params, self.train["MaxNorm"]).item())
        opt.param_groups[0]["lr"] = lr
        opt.step()
        self.result["losses"].append(sum(l for _, l in each) / len(each))
        if join:
            self.keeper = [r for r in active if len(parts[r]) == max(map(len, parts))][-1]

    def evaluate(self):
        self.use(self.keeper)
        x, y = split(self.data, self.data["Test"])
        with torch.no_grad():
            out = self.net.eval()(x)
        self.learn()
        entry = [len(self.result["losses"]), self.loss(out, y).item()]
        if "Classes" in self.data:
            entry.append((out.argmax(1) == y).sum().item() / (y >= 0).sum().item())
        self.result["evals"].append(entry)

    def epochs(self, epoch):
        """Parts of the steps of an epoch: batches by rank."""
        size, micro = self.train["PerRankBatch"], self.train.get("AccumulateSteps", 1)
        batches = [[s[i:i + size] for i in range(0, len(s), size)] for s in shards(self.c, epoch)]
        end = min if self.ddp.get("Uneven") == "stop" else max
        return [[b[i:i + micro] for b in batches] for i in range(0, end(map(len, batches)), micro)]

    def run(self):
        epochs, limit, every = self.train["Epochs"], self.train.get("MaxSteps", 1 << 30), self.train.get("EvalEvery", 1)
        per_epoch = len(self.epochs(0))
        lrs = self.result["rates"] = rates(self.c["Schedule"], self.c["Optimizer"]["LR"], per_epoch, min(limit, epochs * per_epoch))
        opt = optimizer(self.c["Optimizer"], self.params)
        for epoch in range(epochs):
            for parts in self.epochs(epoch):
                self.step(parts, opt, lrs[len(self.result["losses"])])
                if len(self.result["losses"]) == limit:
                    break
            if self.ddp.get("Uneven") == "join":
                self.buffers = [dict(self.buffers[self.keeper]) for _ in self.buffers]
            over = epoch + 1 == epochs or len(self.result["losses"]) == limit
            if every and (over or (epoch + 1) % every == 0):
                self.evaluate()
            if over:
                break
        self.use(self.keeper)
        state = {k: v.double().flatten() for k, v in self.net.state_dict().items()}
        return self.result | {"state": {k: [v.sum().item(), v.abs().sum().item(), v[-1].item()] for k, v in state.items()}}


if __name__ == "__main__":
    json.dump([c | {"Want": Job(c).run()} for c in CASES], sys.stdout, indent=None, separators=(",", ":"))
    print()
