"""Writes gpt.json and gpt.safetensors: loss curves of a small GPT-2 in PyTorch, on 1, 2 and 3 ranks, in float64, from the
weights in gpt.safetensors. AdamW, with decay on matrices only. Ranks are emulated: the mean of their losses has the mean of
their gradients. Tokens and windows are those of gpt_test.go. Run as: python gpt.py"""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

VOCAB, WIDTH, LAYERS, HEADS, CONTEXT, BATCH, STEPS = 256, 16, 2, 2, 8, 3, 30


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = nn.ModuleDict(dict(c_attn=nn.Linear(WIDTH, 3 * WIDTH), c_proj=nn.Linear(WIDTH, WIDTH)))
        self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(WIDTH, 4 * WIDTH), c_proj=nn.Linear(4 * WIDTH, WIDTH)))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, HEADS, c // HEADS).transpose(1, 2) for z in self.attn.c_attn(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.attn.c_proj(y)
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.1)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe.weight
        for block in self.h:
            h = block(h)
        return F.cross_entropy(F.linear(self.ln_f(h), self.wte.weight).view(-1, VOCAB), y.reshape(-1))


data = torch.tensor([(i * i * 31 + i * 7) // 8 % 97 + 32 for i in range(2401)])
windows = (len(data) - 1) // CONTEXT


def curve(world, init):
    net = GPT()
    net.load_state_dict(init)
    net.double()
    decay = [p for p in net.parameters() if p.dim() >= 2]
    rest = [p for p in net.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)], lr=1e-3, betas=(0.9, 0.95))
    losses = []
    for s in range(STEPS):
        total = 0
        for r in range(world):
            w = [((s * BATCH + i) * world + r) % windows * CONTEXT for i in range(BATCH)]
            total = total + net(torch.stack([data[i:i + CONTEXT] for i in w]), torch.stack([data[i + 1:i + 1 + CONTEXT] for i in w])) / world
        opt.zero_grad()
        total.backward()
        opt.step()
        losses.append(total.item())
    return losses


torch.manual_seed(1)
init = GPT().state_dict()
save_file(init, "gpt.safetensors")
with open("gpt.json", "w") as f:
    json.dump({str(w): curve(w, init) for w in (1, 2, 3)}, f)
