"""Prints the logits that transformers computes with the models in folders for given tokens, every key of whose weights
it must know and find: python logits.py DIR TOKENS DIR TOKENS …"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM

all = []
for folder, tokens in zip(sys.argv[1::2], sys.argv[2::2]):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    bad = {k: v for k, v in report.items() if v}
    assert not bad, bad
    with torch.no_grad():
        all.append(model.eval()(torch.tensor([json.loads(tokens)])).logits.flatten().double().tolist())
print(json.dumps(all))
