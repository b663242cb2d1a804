"""Writes logits with their metrics as PyTorch and NumPy compute them."""
import json
import os

import numpy as np
import torch

torch.manual_seed(3)
n, c, k = 40, 6, 2
logits = torch.randn(n, c)
target = torch.randint(0, c, (n,))
target[target == 4] = 3  # a class without samples
target[[5, 17]] = -100
kept = target != -100
x, y = logits[kept], target[kept]
predicted = x.argmax(1)
confusion = torch.zeros(c, c, dtype=torch.int64).index_put_((y, predicted), torch.ones(len(y), dtype=torch.int64), accumulate=True).numpy()
hits, rows, columns = np.diag(confusion), confusion.sum(1), confusion.sum(0)
loss = torch.nn.functional.cross_entropy(x.double(), y, reduction="none")
worst = torch.argsort(loss, descending=True)[:5]
json.dump({
    "logits": logits.double().flatten().tolist(), "target": target.tolist(), "k": k,
    "top_k": (x.topk(k, 1).indices == y[:, None]).any(1).double().mean().item(), "confusion": confusion.tolist(),
    "precision": (hits / np.maximum(columns, 1)).tolist(), "recall": (hits / np.maximum(rows, 1)).tolist(),
    "worst": torch.nonzero(kept).flatten()[worst].tolist(), "loss": loss[worst].tolist(),
    "probability": x.double().softmax(1).max(1).values[worst].tolist(),
}, open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics.json"), "w"))
