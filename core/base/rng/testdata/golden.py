"""Writes golden.json: numbers that PyTorch draws on a CPU. Run: python golden.py > golden.json"""
import json

import torch

cases = []
for seed in (0, 5, 42, 2**33 + 5):
    torch.manual_seed(seed)
    small = torch.empty(9).normal_().tolist()
    uniform = torch.empty(21).uniform_(-0.3, 0.7).tolist()
    cases.append({
        "seed": seed,
        "normal9": small,
        "then_uniform21": uniform,
        "then_normal1": torch.empty(1).normal_().tolist(),
        "then_normal37": torch.empty(37).normal_().tolist(),
        "then_perm": torch.randperm(7).tolist(),
    })
print(json.dumps(cases))
