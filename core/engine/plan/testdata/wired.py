"""Writes wired.json: the losses of networks that branch, of PyTorch in float64 while it trains them with
SGD (lr 0.01, momentum 0.9). Weights, batches and labels come from PyTorch's generator. Run: python wired.py > wired.json"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, STEPS = 4, 10


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1 = nn.Conv2d(1, 4, 3, padding=1)
        self.enc2 = nn.Conv2d(4, 8, 3, padding=1)
        self.mid = nn.Conv2d(8, 8, 3, padding=1)
        self.dec2 = nn.Conv2d(16, 4, 3, padding=1)
        self.dec1 = nn.Conv2d(8, 4, 3, padding=1)
        self.gate = nn.Linear(4, 4)
        self.out = nn.Conv2d(4, 1, 1)
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        e1 = F.relu(self.enc1(x))
        e2 = F.relu(self.enc2(F.max_pool2d(e1, 2)))
        m = F.relu(self.mid(F.max_pool2d(e2, 2)))
        d2 = F.relu(self.dec2(torch.cat([F.interpolate(m, scale_factor=2, mode="bilinear", align_corners=False), e2], 1)))
        d1 = F.relu(self.dec1(torch.cat([F.interpolate(d2, scale_factor=2), e1], 1)))
        g = torch.sigmoid(self.gate(d1.mean((2, 3))))
        return self.fc(self.out(d1 * g[:, :, None, None]).flatten(1))


class TransposedUNet(nn.Module):
    """Transposed convolutions and group norms; padding "same" with even filters; signals."""

    def __init__(self):
        super().__init__()
        self.enc1 = nn.Conv2d(1, 4, 3, padding=1)
        self.enc2, self.enc2_norm = nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.mid, self.mid_norm = nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.up2 = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.dec2, self.dec2_norm = nn.Conv2d(16, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.up1 = nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False)
        self.dec1 = nn.Conv2d(8, 4, 3, padding=1)
        self.out = nn.Conv2d(4, 1, (2, 4), padding="same", dilation=(1, 3))
        self.signal = nn.Conv1d(4, 3, 4, padding="same")
        self.wave = nn.Conv1d(3, 4, 5, stride=3, padding=2)
        self.fc = nn.Linear(264, 10)

    def forward(self, x):
        e1 = F.relu(self.enc1(x))
        e2 = F.relu(self.enc2_norm(self.enc2(F.max_pool2d(e1, 2))))
        m = F.relu(self.mid_norm(self.mid(F.max_pool2d(e2, 2))))
        d2 = F.relu(self.dec2_norm(self.dec2(torch.cat([self.up2(m), e2], 1))))
        d1 = F.relu(self.dec1(torch.cat([self.up1(d2), e1], 1)))
        return self.fc(self.wave(self.signal(self.out(d1).reshape(len(x), 4, 196))).flatten(1))


class Dilated(nn.Module):
    """A transposed convolution whose output_padding exceeds its stride."""

    def __init__(self):
        super().__init__()
        self.enc = nn.Conv2d(1, 4, 3, stride=4, padding=1)
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=(1, 2), padding=(1, 2), output_padding=(2, 4), groups=2, dilation=(3, 5))
        self.out = nn.Conv2d(6, 2, 3)
        self.fc = nn.Linear(462, 10)

    def forward(self, x):
        return self.fc(self.out(F.relu(self.up(self.enc(x)))).flatten(1))


class Transformer(nn.Module):
    """One block with LayerNorm and packed heads, one with RMSNorm, grouped heads and rotary positions."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(28, 16)
        self.positions = nn.Embedding(30, 16)
        self.positions.weight.data = (torch.arange(480) % 7 - 3).reshape(30, 16) / 8  # a normal distribution depends on the machine's sine
        self.ln_1 = nn.LayerNorm(16)
        self.c_attn = nn.Linear(16, 48)
        self.c_proj = nn.Linear(16, 16)
        self.norm = nn.RMSNorm(16, eps=1e-6)
        self.q, self.k, self.v = nn.Linear(16, 16, bias=False), nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)
        self.o = nn.Linear(16, 16, bias=False)
        self.post = nn.RMSNorm(16, eps=1e-6)
        self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)
        self.fc = nn.Linear(28 * 16, 10)

    def forward(self, x):
        n, t = len(x), 28
        x = self.embed(x.reshape(n, t, 28)) + self.positions.weight[:t]
        q, k, v = (h.reshape(n, t, 4, 4).transpose(1, 2) for h in self.c_attn(self.ln_1(x)).split(16, -1))
        x = x + self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, 16))
        y = self.norm(x)
        q, k, v = (w(y).reshape(n, t, -1, 4).transpose(1, 2) for w in (self.q, self.k, self.v))
        q, k = rotate(q), rotate(k)
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, 16))
        y = self.post(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.fc(x.flatten(1))


def rotate(x):
    t, d = x.shape[-2:]
    frequencies = (1 / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)).float()
    angles = (torch.arange(t).float()[:, None] * frequencies).double()
    cos, sin = torch.cat([angles.cos()] * 2, -1).to(x.dtype), torch.cat([angles.sin()] * 2, -1).to(x.dtype)
    return x * cos + torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1) * sin


def batch(step):
    torch.manual_seed(1000 + step)
    x = torch.empty(BATCH, 1, 28, 28).uniform_(0, 1)
    return x.double(), torch.randperm(1000)[:BATCH] % 10


out = []
for name, make in (("unet", UNet), ("unet_transposed", TransposedUNet), ("dilated", Dilated), ("transformer", Transformer)):
    torch.manual_seed(7)
    model = make().double()
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for step in range(STEPS):
        x, y = batch(step)
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    out.append({"model": name, "names": list(model.state_dict()), "losses": losses})
print(json.dumps(out))
