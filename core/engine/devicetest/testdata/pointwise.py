"""Writes pointwise.json beside itself: activations of torch.nn.functional and their
gradients in float64, by name, with arguments where they are not the defaults.

Run by hand with a Python that has torch, when a function is added to CASES.
"""
import json, pathlib, torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

# name, arguments in the order of the operation's keys, and as PyTorch takes them
CASES = [(n, [], {}) for n in "relu sigmoid tanh silu relu6 hardswish hardsigmoid hardtanh mish softsign logsigmoid selu".split()] + [
    ("gelu", [0], dict(approximate="none")), ("gelu", [1], dict(approximate="tanh")),
    ("leaky_relu", [0.01], dict(negative_slope=0.01)), ("leaky_relu", [0.3], dict(negative_slope=0.3)),
    ("softplus", [1, 20], dict(beta=1, threshold=20)), ("softplus", [3, 5], dict(beta=3, threshold=5)),
    ("elu", [1], dict(alpha=1)), ("elu", [0.5], dict(alpha=0.5)), ("celu", [1], dict(alpha=1)), ("celu", [0.5], dict(alpha=0.5)),
]
X = [-40, -8, -3, -1.5, -1, -0.75, -0.25, -0.0625, 0, 0.0625, 0.5, 0.75, 1, 1.75, 2.5, 3, 5.5, 6, 6.5, 9, 21, 40]
DY = [1, -2, 0.5, 3, -1, 2, 1, 0.25, 1, -1, 2, 1, -0.5, 1, 3, 1, -1, 1, 2, 1, -2, 1]  # numbers that every type has

cases = []
for name, scalars, args in CASES:
    x = torch.tensor(X, requires_grad=True)
    y = getattr(F, name)(x, **args)
    y.backward(torch.tensor(DY))
    cases.append(dict(name=name, scalars=scalars, y=y.tolist(), dx=x.grad.tolist()))
lines = ",\n".join(json.dumps(c) for c in cases)
pathlib.Path(__file__).with_name("pointwise.json").write_text('{"x": %s,\n"dy": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(X), json.dumps(DY), lines))
