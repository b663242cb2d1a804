"""Writes small networks as PyTorch's two exporters write them, and what PyTorch computes: NAME.onnx.gz without
its comments, and goldens.json.
Needs torch, torchvision, onnx and onnxscript. Inputs are sin(0.7·i + 0.3), or i·5 modulo the vocabulary for tokens."""
import gzip
import json
import os

import onnx
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


class Residual(nn.Module):
    def __init__(self, inp, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inp, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential(nn.Conv2d(inp, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if stride > 1 else None

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Residual(4, 4, 1), Residual(4, 4, 1))
        self.layer2 = nn.Sequential(Residual(4, 6, 2), Residual(6, 6, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = self.layer2(self.layer1(self.maxpool(self.relu(self.bn1(self.conv1(x))))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Inverted(nn.Module):
    def __init__(self, inp, out, stride, gate):
        super().__init__()
        wide = 2 * inp
        self.conv = nn.Sequential(
            nn.Conv2d(inp, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.SiLU())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 2, 1), nn.SiLU(), nn.Conv2d(2, wide, 1), nn.Sigmoid()) if gate else None
        self.project = nn.Sequential(nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out))
        self.skip = stride == 1 and inp == out

    def forward(self, x):
        y = self.conv(x)
        if self.squeeze is not None:
            y = y * self.squeeze(y)
        y = self.project(y)
        return x + y if self.skip else y


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU6(), Inverted(4, 4, 1, False), Inverted(4, 6, 2, True), Inverted(6, 6, 1, True))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 5))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        double = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.LeakyReLU(0.2), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.down1, self.down2, self.middle = double(1, 4), double(4, 6), double(6, 8)
        self.up2, self.up1 = nn.ConvTranspose2d(8, 6, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.merge2, self.merge1 = double(12, 6), double(10, 4)
        self.nearest = nn.Upsample(scale_factor=2)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        y = self.middle(F.avg_pool2d(b, 2))
        y = self.merge2(torch.cat([self.up2(y), b], 1))
        y = self.merge1(torch.cat([self.up1(y), a], 1))
        return F.softplus(self.head(self.nearest(F.max_pool2d(y, 2))))


class Block(nn.Module):
    """A transformer's block as timm and nanoGPT write it."""

    def __init__(self, width, heads, causal, act):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.heads, self.causal, self.act = heads, causal, act

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.fc2(self.act(self.fc1(self.ln_2(x))))


class Patches(nn.Module):
    """A vision transformer with a class token."""

    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 8, 4, 4)
        self.cls_token, self.pos_embed = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 10, 8))
        self.blocks = nn.Sequential(Block(8, 2, False, nn.GELU()), Block(8, 2, False, nn.GELU(approximate="tanh")))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Words(nn.Module):
    """A language model whose head has the embedding's weight."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, 8), nn.Embedding(7, 8)
        self.h = nn.ModuleList([Block(8, 2, True, nn.GELU()) for _ in range(2)])
        self.ln_f, self.lm_head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Signals(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, 4, 4, padding="same"), nn.BatchNorm1d(4), nn.Softplus(beta=2), nn.Conv1d(4, 6, 3, stride=2))
        self.rms = RMSNorm(6)
        self.head = nn.Linear(81, 5)

    def forward(self, x):
        a, b = self.rms(self.conv(x).transpose(1, 2)).chunk(2, dim=2)
        return self.head(torch.flatten(torch.cat([a * torch.tanh(b), a, b], 2), 1))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 5))


def vit():
    return torchvision.models.VisionTransformer(image_size=12, patch_size=4, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=12, num_classes=5)


NETWORKS = {
    "mlp": (mlp, [3, 2, 2]), "resnet": (ResNet, [3, 24, 24]), "mobilenet": (MobileNet, [3, 16, 16]), "unet": (UNet, [1, 8, 8]),
    "vit": (vit, [3, 12, 12]), "patches": (Patches, [3, 12, 12]), "words": (Words, [7]), "signals": (Signals, [3, 19]),
}


def sample(shape, rows):
    n = rows
    for d in shape:
        n *= d
    i = torch.arange(n, dtype=torch.float64)
    if len(shape) == 1:
        return (i * 5 % 11).long().reshape(rows, *shape)
    return torch.sin(0.7 * i + 0.3).float().reshape(rows, *shape)


def export(name, model, x, goldens):
    with torch.no_grad():
        want = [float(v) for v in model(x).flatten()]
    for exporter, options in {
        "script": dict(dynamo=False, opset_version=17, dynamic_axes={"input": {0: "batch"}}),
        "fixed": dict(dynamo=False, opset_version=14),  # with a batch of this size
        "norms": dict(dynamo=False, opset_version=17, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False),
        "dynamo": dict(dynamo=True, external_data=False, dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)),
    }.items():
        if exporter == "fixed" and name not in ("mlp", "patches", "vit"):
            continue
        if exporter == "norms" and name != "resnet":
            continue
        file = f"{name}.{exporter}.onnx"
        path = os.path.join(HERE, file)
        torch.onnx.export(model, (x,), path, input_names=["input"], **options)
        model_proto = onnx.load(path)
        os.remove(path)
        graph = model_proto.graph
        for part in [model_proto, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
            part.ClearField("metadata_props")
            part.ClearField("doc_string")
        with open(path + ".gz", "wb") as f:
            f.write(gzip.compress(model_proto.SerializeToString(), mtime=0))
        goldens.append({"file": file, "rows": x.shape[0], "output": want})


def main():
    goldens = []
    for name, (make, shape) in NETWORKS.items():
        torch.manual_seed(1)
        model = make().eval()
        for module in model.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                module.running_mean.uniform_(-0.5, 0.5)
                module.running_var.uniform_(0.5, 1.5)
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.3)
        export(name, model, sample(shape, 2), goldens)
    with open(os.path.join(HERE, "goldens.json"), "w") as f:
        json.dump(goldens, f)


if __name__ == "__main__":
    main()
