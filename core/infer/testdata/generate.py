"""Writes generate.json: what transformers' generate continues given tokens with, greedily, with the models and weights
of core/engine/nn/testdata/named.py. Run with transformers: python generate.py > generate.json"""
import json
import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/nn/testdata"))
from named import GPT2, LLAMA, TIED, V, fill, rotary  # noqa: E402

cases = []
for name, make, config in (
    ("gpt2", lambda c: GPT2LMHeadModel(GPT2Config(**c, bos_token_id=0, eos_token_id=None)), dict(GPT2, n_positions=80)),
    ("llama", lambda c: LlamaForCausalLM(LlamaConfig(**rotary(c), bos_token_id=0, eos_token_id=None)), dict(LLAMA, max_position_embeddings=80)),
    ("llama", lambda c: LlamaForCausalLM(LlamaConfig(**rotary(c), bos_token_id=0, eos_token_id=None)), dict(TIED, max_position_embeddings=80)),
):
    model = make(config).eval()
    fill(model)
    for length in (1, 3, 40):
        torch.manual_seed(length)
        prompt = torch.randint(0, V, (1, length))
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=40, pad_token_id=0)
        with torch.no_grad():
            logits = model(out).logits[0, -1]
        cases.append({"model": name, "config": config, "prompt": prompt[0].tolist(), "text": out[0, length:].tolist(), "logits": [float(x) for x in logits]})
json.dump(cases, sys.stdout)
