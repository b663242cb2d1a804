"""Writes named.json: what transformers' GPT-2 and Llama and torchvision's ViT compute with given weights, in
float64, and how their constructors and GPT-2's usual one in PyTorch (linear weights [out, in]) initialise them.
Weights come from PyTorch's generator, so they need not be stored. Run with transformers and torchvision:
python named.py > named.json"""
import json
import math
import zlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models.vision_transformer import VisionTransformer
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.pytorch_utils import Conv1D

V, T, BATCH = 19, 12, 3
GPT2 = dict(vocab_size=V, n_positions=16, n_embd=24, n_layer=2, n_head=3)
LLAMA = dict(vocab_size=V, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=32, rms_norm_eps=1e-5)
TIED = dict(LLAMA, num_key_value_heads=1, head_dim=16, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, rope_theta=500.0)
SCALED = dict(LLAMA, num_hidden_layers=1, rope_type="yarn", rope_factor=4.0, rope_original_max_position_embeddings=8)
LONG = dict(LLAMA, num_hidden_layers=1, rope_type="longrope", rope_short_factor=[1.0, 1.25, 1.5, 3.0], rope_long_factor=[1.0, 2.5, 7.0, 21.5], rope_original_max_position_embeddings=8)
SCALES = [
    SCALED, dict(SCALED, rope_beta_fast=2.0, rope_beta_slow=0.25, rope_mscale=0.7, rope_mscale_all_dim=1.4, rope_truncate=False, rope_theta=100.0),
    dict(SCALED, head_dim=16, rope_attention_factor=1.3, rope_beta_fast=1.5, rope_theta=50.0),
    dict(LLAMA, num_hidden_layers=1, rope_type="dynamic", rope_factor=3.0, max_position_embeddings=8),
    LONG, dict(LONG, rope_original_max_position_embeddings=16, rope_factor=2.0), dict(LONG, rope_attention_factor=1.2, rope_theta=100.0),
]
VIT = dict(patch_size=4, num_layers=2, num_heads=3, hidden_dim=24, mlp_dim=40)


def transposed(model):
    return {name + ".weight" for name, m in model.named_modules() if isinstance(m, Conv1D)}


def fill(model):
    """The same weights as fillNamed in transformer_test.go: one seed for each name."""
    flip = transposed(model)
    for key, v in model.named_parameters():
        torch.manual_seed(zlib.crc32(key.encode()))
        w = torch.empty(v.shape[::-1] if key in flip else v.shape, dtype=torch.float32)
        if v.dim() > 1:
            bound = math.sqrt(3 / w[0].numel())
            w.uniform_(-bound, bound)
        elif key.endswith("weight"):
            w.uniform_(0.5, 1.5)
        else:
            w.uniform_(-0.5, 0.5)
        v.data.copy_(w.t() if key in flip else w)


def summary(v):
    v = v.detach().double().flatten()
    return {"sum": float(v.sum()), "abs": float(v.abs().sum()), "first": [float(x) for x in v[:4]]}


def summaries(model, of):
    flip = transposed(model)
    return {k: summary(of(p).t() if k in flip else of(p)) for k, p in model.named_parameters()}


def tokens(seed):
    torch.manual_seed(seed)
    return torch.randint(0, V, (BATCH, T))


class GPT(nn.Module):
    """GPT-2 with linear layers, as nanoGPT and many others write it."""

    def __init__(self, c):
        super().__init__()
        d = c["n_embd"]
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(V, d), wpe=nn.Embedding(c["n_positions"], d), h=nn.ModuleList()))
        for _ in range(c["n_layer"]):
            self.transformer.h.append(nn.ModuleDict(dict(
                ln_1=nn.LayerNorm(d), attn=nn.ModuleDict(dict(c_attn=nn.Linear(d, 3 * d), c_proj=nn.Linear(d, d))),
                ln_2=nn.LayerNorm(d), mlp=nn.ModuleDict(dict(c_fc=nn.Linear(d, 4 * d), c_proj=nn.Linear(4 * d, d))))))
        self.transformer["ln_f"] = nn.LayerNorm(d)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * c["n_layer"]) if name.endswith("c_proj.weight") else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)


def vit():
    return VisionTransformer(image_size=12, num_classes=10, **VIT)


def case(name, config, build, made=None):
    torch.manual_seed(42)
    drawn = (made or build)()
    init = summaries(drawn, lambda p: p)
    model = build()
    fill(model)
    model = model.double()
    if name == "vit":
        torch.manual_seed(1000)
        x = torch.empty(BATCH, 3, 12, 12).uniform_(-2, 2)
        y, logits = torch.tensor([7, 0, 3]), model(x.double())
    else:
        x, y = tokens(1), tokens(2)
        logits = model(input_ids=x).logits
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
    loss.backward()
    rope = config.pop("rope_parameters", None)
    for k, v in (rope or {}).items():
        if v != "default":
            config[k if k.startswith("rope_") else "rope_" + k] = v
    return dict(model=name, config=config, input=x.flatten().tolist(), target=y.flatten().tolist(), logits=logits.detach().flatten().tolist(),
                loss=float(loss), grads=summaries(model, lambda p: p.grad), init=init, names=[k for k, _ in model.named_parameters()])


def rotary(c):
    c = dict(c)
    given = {k: c.pop(k) for k in list(c) if k.startswith("rope_")}
    rope = {"rope_theta": 10000.0, "rope_type": "default"}
    c["rope_parameters"] = rope | {k if k in rope else k[len("rope_"):]: v for k, v in given.items()}
    return c


if __name__ == "__main__":
    none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    print(json.dumps([
        case("gpt2", dict(GPT2), lambda: GPT2LMHeadModel(GPT2Config(**GPT2, **none)), lambda: GPT(GPT2)),
        case("llama", rotary(LLAMA), lambda: LlamaForCausalLM(LlamaConfig(**rotary(LLAMA)))),
        case("llama", rotary(TIED), lambda: LlamaForCausalLM(LlamaConfig(**rotary(TIED)))),
        case("vit", dict(VIT), vit),
    ] + [case("llama", rotary(c), lambda: LlamaForCausalLM(LlamaConfig(**rotary(c)))) for c in SCALES]))
