"""Writes golden.json beside itself: inputs and PyTorch's float64 answers.

Run by hand with a Python that has torch, when a case is added.
"""
import json, pathlib, torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def flat(t):
    return [float(f"{v:.15g}") for v in t.detach().reshape(-1).tolist()]


def rand(*shape):
    # Few digits keep the file small and are the same number on both sides.
    return (torch.randn(*shape) * 100).round() / 100


def conv(n, c, h, w, k, r, s, stride, pad, dil, groups):
    x, wt, b = rand(n, c, h, w).requires_grad_(), rand(k, c // groups, r, s).requires_grad_(), rand(k).requires_grad_()
    y = F.conv2d(x, wt, b, stride, pad, dil, groups)
    dy = rand(*y.shape)
    y.backward(dy)
    shape = dict(N=n, C=c, H=h, W=w, K=k, R=r, S=s, StrideH=stride[0], StrideW=stride[1], PadH=pad[0], PadW=pad[1],
                 DilH=dil[0], DilW=dil[1], Groups=groups)
    return dict(shape=shape, x=flat(x), w=flat(wt), bias=flat(b), dy=flat(dy), y=flat(y), dx=flat(x.grad), dw=flat(wt.grad), db=flat(b.grad))


def batchnorm():
    x, g, b = rand(3, 2, 2, 3).requires_grad_(), rand(2).requires_grad_(), rand(2).requires_grad_()
    y = F.batch_norm(x, None, None, g, b, True, 0.1, 1e-5)
    dy = rand(*y.shape)
    y.backward(dy)
    return dict(x=flat(x), gamma=flat(g), beta=flat(b), dy=flat(dy), y=flat(y), dx=flat(x.grad), dgamma=flat(g.grad), dbeta=flat(b.grad))


def layernorm():
    x, g, b = rand(3, 5).requires_grad_(), rand(5).requires_grad_(), rand(5).requires_grad_()
    y = F.layer_norm(x, (5,), g, b, 1e-5)
    dy = rand(*y.shape)
    y.backward(dy)
    return dict(x=flat(x), gamma=flat(g), beta=flat(b), dy=flat(dy), y=flat(y), dx=flat(x.grad), dgamma=flat(g.grad), dbeta=flat(b.grad))


def pool(h, w, kernel, stride, pad, ceil, include):
    x = rand(1, 2, h, w)
    y, idx = F.max_pool2d(x, kernel, stride, pad, ceil_mode=ceil, return_indices=True)
    avg = F.avg_pool2d(x, kernel, stride, pad, ceil_mode=ceil, count_include_pad=include)
    shape = dict(N=1, C=2, H=h, W=w, R=kernel[0], S=kernel[1], StrideH=stride[0], StrideW=stride[1], PadH=pad[0], PadW=pad[1],
                 CeilMode=ceil, CountIncludePad=include)
    return dict(shape=shape, outH=y.shape[2], outW=y.shape[3], x=flat(x), max=flat(y), idx=idx.reshape(-1).tolist(), avg=flat(avg))


def adaptive(h, w, oh, ow):
    x = rand(1, 2, h, w)
    return dict(h=h, w=w, oh=oh, ow=ow, x=flat(x), y=flat(F.adaptive_avg_pool2d(x, (oh, ow))))


def activations():
    x = torch.cat([rand(8) * 2, torch.tensor([0.0, -8.0, 8.0])])
    return dict(x=flat(x), gelu=flat(F.gelu(x)), geluTanh=flat(F.gelu(x, approximate="tanh")), sigmoid=flat(x.sigmoid()), tanh=flat(x.tanh()))


def cross_entropy(smoothing):
    x, t = (rand(5, 4) * 3).requires_grad_(), torch.tensor([1, 0, -100, 3, 2])
    per_row = F.cross_entropy(x, t, label_smoothing=smoothing, reduction="none")
    loss = F.cross_entropy(x, t, label_smoothing=smoothing)
    loss.backward()
    return dict(smoothing=smoothing, x=flat(x), target=t.tolist(), perRow=flat(per_row), loss=loss.item(), dx=flat(x.grad),
                correct=int((x.argmax(1) == t).sum()))


def optimizer(make, **options):
    p = rand(20).requires_grad_()
    start, grads, steps = flat(p), [], []
    opt = make([p], **options)
    for _ in range(4):
        p.grad = rand(20)
        grads.append(flat(p.grad))
        opt.step()
        steps.append(flat(p))
    return dict(options={k: list(v) if isinstance(v, tuple) else v for k, v in options.items()}, start=start, grads=grads, steps=steps)


golden = dict(
    conv=[conv(2, 3, 5, 6, 4, 3, 3, (1, 1), (1, 1), (1, 1), 1), conv(1, 4, 7, 6, 2, 3, 2, (2, 1), (1, 0), (2, 3), 2),
          conv(2, 2, 4, 4, 2, 2, 2, (2, 2), (1, 1), (1, 1), 2), conv(1, 2, 6, 6, 3, 5, 5, (1, 1), (2, 2), (1, 1), 1)],
    batchnorm=batchnorm(), layernorm=layernorm(),
    pool=[pool(5, 7, (2, 2), (2, 2), (0, 0), False, True), pool(5, 7, (2, 2), (2, 2), (0, 0), True, True),
          pool(6, 5, (3, 2), (2, 3), (1, 1), True, True), pool(6, 5, (3, 3), (2, 2), (1, 1), True, False)],
    adaptive=[adaptive(5, 7, 3, 2), adaptive(3, 4, 1, 1), adaptive(2, 3, 4, 5)],
    activations=activations(),
    crossEntropy=[cross_entropy(0.0), cross_entropy(0.1)],
    sgd=[optimizer(torch.optim.SGD, lr=0.1), optimizer(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
         optimizer(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
         optimizer(torch.optim.SGD, lr=0.1, momentum=0.5, dampening=0.3, maximize=True)],
    adam=[optimizer(torch.optim.Adam, lr=0.1), optimizer(torch.optim.Adam, lr=0.1, betas=(0.8, 0.95), weight_decay=0.1, eps=1e-6),
          optimizer(torch.optim.Adam, lr=0.1, amsgrad=True)],
    adamw=[optimizer(torch.optim.AdamW, lr=0.1, weight_decay=0.2), optimizer(torch.optim.AdamW, lr=0.1, amsgrad=True, weight_decay=0.01)],
)
out = pathlib.Path(__file__).with_name("golden.json")
out.write_text(json.dumps(golden, indent=None, separators=(",", ":")) + "\n")
