"""Writes torch.safetensors as PyTorch's own library does: python make.py"""
import torch
from safetensors.torch import save_file

save_file(
    {
        "module.fc.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) - 2.5,
        "module.fc.half": torch.tensor([1.0, -2.0, 65504.0], dtype=torch.float16),
        "module.fc.brain": torch.tensor([1.0, 3.140625], dtype=torch.bfloat16),
        "module.bn.num_batches_tracked": torch.tensor(7),
        "module.mask": torch.tensor([True, False, True]),
        "module.empty": torch.zeros(0, 4, dtype=torch.float64),
    },
    "torch.safetensors",
    metadata={"format": "pt"},
)
