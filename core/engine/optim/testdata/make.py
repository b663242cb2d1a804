"""Writes optimizers.json and schedules.json from torch.optim: python make.py

Values are exact: float.hex() of every number, of float32 ones too.
"""
import itertools
import json
import warnings

import torch

torch.set_num_threads(1)
torch.set_flush_denormal(False)
warnings.simplefilter("ignore")
STEPS = 6


def grads(dtype):
    g = torch.Generator().manual_seed(3)
    return [torch.randn(2, 4, generator=g, dtype=torch.float64).to(dtype) for _ in range(STEPS)]


def start(dtype):
    g = torch.Generator().manual_seed(1)
    return torch.randn(2, 4, generator=g, dtype=torch.float64).to(dtype)


def hexes(t):
    return [float(v).hex() for v in t.detach().double().flatten()]


def configs():
    for momentum, dampening, nesterov, wd, maximize in itertools.product([0, 0.9], [0, 0.3], [False, True], [0, 0.01], [False, True]):
        if nesterov and (momentum == 0 or dampening != 0):
            continue
        yield dict(name="sgd", lr=0.1, momentum=momentum, dampening=dampening, nesterov=nesterov, weight_decay=wd, maximize=maximize)
    for name, amsgrad, wd, maximize, betas in itertools.product(
        ["adam", "adamw"], [False, True], [0, 0.01], [False, True], [(0.9, 0.999), (0.3, 0.6)]
    ):
        yield dict(name=name, lr=0.01, betas=betas, eps=1e-8, amsgrad=amsgrad, weight_decay=wd, maximize=maximize)


    for momentum, nesterov, wd, maximize in itertools.product([0, 0.9], [False, True], [0, 0.01], [False, True]):
        if nesterov and momentum == 0:
            continue
        yield dict(name="lars", lr=0.5, momentum=momentum, nesterov=nesterov, weight_decay=wd, maximize=maximize, trust_coefficient=0.02)


    for alpha, momentum, centered, wd, maximize in itertools.product([0.99, 0.3], [0, 0.9], [False, True], [0, 0.01], [False, True]):
        yield dict(name="rmsprop", lr=0.01, alpha=alpha, eps=1e-8, momentum=momentum, centered=centered, weight_decay=wd, maximize=maximize)


class LARS(torch.optim.SGD):
    """SGD on gradients that have weight decay and LARS's factor in them already."""

    def __init__(self, params, trust_coefficient, weight_decay, maximize, **rest):
        super().__init__(params, **rest)
        self.trust, self.decay, self.sign = trust_coefficient, weight_decay, -1 if maximize else 1

    def step(self):
        for p in self.param_groups[0]["params"]:
            w, g = float(p.detach().double().norm()), float(p.grad.double().norm())
            ratio = self.trust * w / (g + self.decay * w + 1e-8) if w > 0 and g > 0 else 1.0
            p.grad = ratio * (self.sign * p.grad + self.decay * p.detach())
        super().step()


def run(config, dtype):
    config = dict(config)
    cls = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lars": LARS, "rmsprop": torch.optim.RMSprop}[config.pop("name")]
    p = torch.nn.Parameter(start(dtype))
    opt = cls([p], foreach=False, **config)
    out = []
    for g in grads(dtype):
        p.grad = g.clone()
        opt.step()
        out.append(hexes(p))
    return out


optimizers = {
    dtype: {
        "start": hexes(start(t)),
        "grads": [hexes(g) for g in grads(t)],
        "runs": [dict(config=c, params=run(c, t)) for c in configs()],
    }
    for dtype, t in [("f32", torch.float32), ("f64", torch.float64)]
}


def clip(max_norm, dtype):
    ps = [torch.nn.Parameter(start(dtype)), torch.nn.Parameter(start(dtype)[0])]
    for i, p in enumerate(ps):
        p.grad = grads(dtype)[i].reshape(-1)[: p.numel()].reshape(p.shape).clone()
    total = torch.nn.utils.clip_grad_norm_(ps, max_norm)
    return dict(max_norm=max_norm, total=float(total).hex(), grads=[hexes(p.grad) for p in ps])


for dtype, t in [("f32", torch.float32), ("f64", torch.float64)]:
    optimizers[dtype]["clip"] = [clip(m, t) for m in (0.5, 2.0, 100.0)]



def grouped(config, dtype):
    """Two parameters in groups of their own, a third in none, and a frozen one."""
    config = dict(config)
    cls = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}[config.pop("name")]
    ps = [torch.nn.Parameter(start(dtype)) for _ in range(4)]
    ps[3].requires_grad_(False)
    opt = cls([dict(params=[ps[0]], lr=3 * config["lr"]), dict(params=[ps[1]], weight_decay=0.2, lr=config["lr"] / 2), dict(params=[ps[2]])], foreach=False, **config)
    norms, out = [], []
    for g in grads(dtype):
        for i, p in enumerate(ps[:3]):
            p.grad = g * (i + 1)
        norms.append(float(torch.nn.utils.clip_grad_norm_(ps, 5.0)).hex())
        opt.step()
        out.append([hexes(p) for p in ps])
    return dict(norms=norms, params=out)


GROUPED = [
    dict(name="sgd", lr=0.1, momentum=0.9, weight_decay=0.01), dict(name="adam", lr=0.01, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-8),
    dict(name="adamw", lr=0.01, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-8), dict(name="rmsprop", lr=0.01, weight_decay=0.01, alpha=0.99, eps=1e-8),
]
for dtype, t in [("f32", torch.float32), ("f64", torch.float64)]:
    optimizers[dtype]["grouped"] = [dict(config=c, **grouped(c, t)) for c in GROUPED]



def averaged(decay, dtype):
    """Weights and their moving averages, step by step."""
    model = torch.nn.Module()
    model.w = torch.nn.Parameter(start(dtype))
    ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
    opt = torch.optim.SGD([model.w], lr=0.1, momentum=0.9)
    out = []
    for g in grads(dtype):
        model.w.grad = g.clone()
        opt.step()
        ema.update_parameters(model)
        out.append(hexes(ema.module.w))
    return dict(decay=decay, averages=out)


for dtype, t in [("f32", torch.float32), ("f64", torch.float64)]:
    optimizers[dtype]["averaged"] = [averaged(d, t) for d in (0.9, 0.999, 0.3)]



def cycled(config, dtype):
    """Weights under OneCycleLR, which changes the momentum."""
    config = dict(config)
    cls = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop}[config.pop("name")]
    p = torch.nn.Parameter(start(dtype))
    opt = cls([p], foreach=False, **config)
    schedule, out = torch.optim.lr_scheduler.OneCycleLR(opt, config["lr"], total_steps=STEPS), []
    for i, g in enumerate(grads(dtype)):
        p.grad = g.clone()
        opt.step()
        if i < STEPS - 1:
            schedule.step()
        out.append(hexes(p))
    return out


CYCLED = GROUPED + [dict(name="sgd", lr=0.1), dict(name="sgd", lr=0.1, momentum=0.9, nesterov=True), dict(name="adam", lr=0.01, amsgrad=True)]
for dtype, t in [("f32", torch.float32), ("f64", torch.float64)]:
    optimizers[dtype]["cycled"] = [dict(config=c, params=cycled(c, t)) for c in CYCLED]

with open("optimizers.json", "w") as f:
    json.dump(optimizers, f)

L = torch.optim.lr_scheduler
BASE = 0.2


def trace(make, n, warmup=None):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    schedules = [make(opt)] if make else []
    if warmup:
        schedules.append(L.LinearLR(opt, start_factor=warmup[1], total_iters=warmup[0]))
    out = []
    for _ in range(n):
        out.append(opt.param_groups[0]["lr"].hex())
        opt.step()
        for s in schedules:
            s.step()
    return out


schedules = []
for config, make in [
    (dict(name="constant"), None),
    (dict(name="step", step_size=3, gamma=0.5), lambda o: L.StepLR(o, 3, 0.5)),
    (dict(name="step", step_size=1, gamma=0.97), lambda o: L.StepLR(o, 1, 0.97)),
    (dict(name="multistep", milestones=[2, 5, 5, 9], gamma=0.1), lambda o: L.MultiStepLR(o, [2, 5, 5, 9], 0.1)),
    (dict(name="cosine", t_max=10), lambda o: L.CosineAnnealingLR(o, 10)),
    (dict(name="cosine", t_max=7, eta_min=0.01), lambda o: L.CosineAnnealingLR(o, 7, 0.01)),
    (dict(name="linear", start_factor=1 / 3, end_factor=1.0, total_iters=5), lambda o: L.LinearLR(o)),
    (dict(name="linear", start_factor=1.0, end_factor=0.1, total_iters=8), lambda o: L.LinearLR(o, 1.0, 0.1, 8)),
]:
    schedules.append(dict(config=config, lr=trace(make, 16)))
    if config.get("eta_min", 0) == 0:  # torch chains factors, which an offset would not survive
        schedules.append(dict(config=config | dict(warmup_steps=4, warmup_factor=0.25), lr=trace(make, 16, (4, 0.25))))



def sequence(make, n, warm):
    """LinearLR over warm[0] steps from warm[1], and then the schedule."""
    def both(o):
        first = L.LinearLR(o, start_factor=warm[1], total_iters=warm[0])
        return L.SequentialLR(o, [first, make(o)], [warm[0]])
    return trace(both, n)


def cycle(total, key="lr", **kw):
    def make(o):
        return L.OneCycleLR(o, BASE, total_steps=total, **kw)
    values = trace_until(make, total, key)
    return values + values[-1:] * (16 - total)


def trace_until(make, n, key):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    schedule, out = make(opt), []
    for i in range(n):
        out.append(float(opt.param_groups[0][key]).hex())
        opt.step()
        if i < n - 1:
            schedule.step()
    return out


exponential = lambda o: L.ExponentialLR(o, 0.9)
trapezoid = lambda o: L.SequentialLR(o, [L.ConstantLR(o, 1.0, 1), L.LinearLR(o, 1.0, 0.1, 4)], [8])
schedules += [
    dict(config=dict(name="exponential", gamma=0.9), lr=trace(exponential, 16)),
    dict(config=dict(name="trapezoid", total_iters=12, decay_iters=4, end_factor=0.1), lr=trace(trapezoid, 16)),
]
for total, kw in [(10, {}), (16, dict(pct_start=0.4, div_factor=10.0, final_div_factor=100.0)), (10, dict(anneal_strategy="linear", three_phase=True)), (5, {}), (12, dict(three_phase=True)), (9, dict(base_momentum=0.5, max_momentum=0.9))]:
    config = dict(name="onecycle", total_iters=total, **{k.replace("anneal_strategy", "anneal_linear"): v == "linear" if k == "anneal_strategy" else v for k, v in kw.items()})
    schedules.append(dict(config=config, lr=cycle(total, **kw), momentum=cycle(total, "momentum", **kw)))
for config, make in [
    (dict(name="cosine", t_max=10, eta_min=0.01), lambda o: L.CosineAnnealingLR(o, 10, 0.01)), (dict(name="exponential", gamma=0.9), exponential),
    (dict(name="multistep", milestones=[2, 5], gamma=0.1), lambda o: L.MultiStepLR(o, [2, 5], 0.1)),
]:
    schedules.append(dict(config=config | dict(warmup_steps=4, warmup_factor=0.25, warmup_mode="sequential"), lr=sequence(make, 16, (4, 0.25))))



def plateau(metrics, mode="min", **kw):
    """The rate after each evaluation."""
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    schedule, out = L.ReduceLROnPlateau(opt, mode=mode, **kw), []
    for m in metrics:
        schedule.step(m)
        out.append(opt.param_groups[0]["lr"].hex())
    names = dict(factor="gamma", min_lr="eta_min")
    config = {names.get(k, k): v for k, v in kw.items() if k != "threshold_mode"}
    config |= dict(name="plateau", metric="eval.accuracy" if mode == "max" else "eval.loss", threshold_abs=kw.get("threshold_mode") == "abs")
    return dict(config=config, metrics=[str(m) for m in metrics], lr=out)


plateaus = [
    plateau([1] * 7, patience=1), plateau([1, 0.95, 0.89, 0.85, 0.8], patience=0, factor=0.5, threshold=0.1), plateau([1] * 8, patience=1, factor=0.5, cooldown=1),
    plateau([1, 1.05, 1.2, 1.3, float("nan")], mode="max", patience=0, factor=0.5, threshold=0.1, threshold_mode="abs"), plateau([1] * 3, patience=0, min_lr=0.05),
    plateau([float("nan"), 2, 1.9, float("nan"), 1.95, 1.7, 3, 3, 3, 3], patience=1, factor=0.3, cooldown=2, threshold=0.02), plateau([1] * 25),
    plateau([0.5, 0.51, 0.511, 0.6, 0.6, 0.6], mode="max", patience=1, threshold=0.05), plateau([-1, -1.05, -1.2, -1.2, -1.2], patience=0, factor=0.5, threshold=0.1),
]
with open("schedules.json", "w") as f:
    json.dump(dict(base=BASE.hex(), runs=schedules, plateaus=plateaus), f)
