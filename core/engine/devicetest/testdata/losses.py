"""Writes losses.json beside itself: losses of torch.nn.functional and their gradients in
float64, by the operation's name, with the settings of [model] that they have.

Run by hand with a Python that has torch, when a loss is added to CASES.
"""
import json, pathlib, torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(7)
WEIGHTS = [0.5, 1, 1.5, 2, 0.25]
CLASSES = torch.tensor([1, 4, -100, 0, 3, 3])
CASES = [("cross_entropy", kind, settings) for kind in ("classes", "probabilities") for settings in (
    {}, dict(smoothing=0.1), dict(weights=WEIGHTS), dict(smoothing=0.3, weights=WEIGHTS))] + [
    ("mse", "numbers", {}), ("l1", "numbers", {}), ("huber", "numbers", dict(delta=1.0)), ("huber", "numbers", dict(delta=0.3)),
    ("bce_with_logits", "probabilities", {})]


def run(name, kind, settings):
    x = (torch.randn(6, 5) * 2).requires_grad_()
    target = CLASSES if kind == "classes" else torch.randn(6, 5) if kind == "numbers" else torch.softmax(torch.randn(6, 5), 1)
    if kind == "numbers":
        target[2, 3] = x[2, 3].item()
    if name == "cross_entropy":
        w = torch.tensor(settings["weights"]) if "weights" in settings else None
        loss = F.cross_entropy(x, target, weight=w, label_smoothing=settings.get("smoothing", 0.0))
    elif name == "huber":
        loss = F.huber_loss(x, target, delta=settings["delta"])
    else:
        loss = dict(mse=F.mse_loss, l1=F.l1_loss, bce_with_logits=F.binary_cross_entropy_with_logits)[name](x, target)
    loss.backward()
    return dict(name=name, soft=kind != "classes", **settings, x=x.flatten().tolist(), target=target.flatten().tolist(), loss=loss.item(), dx=x.grad.flatten().tolist())


lines = ",\n".join(json.dumps(run(*c)) for c in CASES)
pathlib.Path(__file__).with_name("losses.json").write_text("[\n%s\n]\n" % lines)
