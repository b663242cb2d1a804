"""Checks each model NAME.onnx of a folder and runs it on the inputs NAME.ROWS.in: outputs go to NAME.ROWS.json.
Needs onnx, onnxruntime and numpy."""
import glob
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime

types = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx"))):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = session.get_inputs()[0]
    assert x.name == "input" and x.shape[0] == "batch" and session.get_outputs()[0].name == "output"
    for data in sorted(glob.glob(path[: -len("onnx")] + "*.in")):
        inputs = np.fromfile(data, types[x.type]).reshape([-1] + x.shape[1:])
        out = session.run(["output"], {"input": inputs})[0]
        assert out.shape[0] == inputs.shape[0]
        with open(data[: -len("in")] + "json", "w") as f:
            json.dump(out.astype(float).flatten().tolist(), f)
