#!/usr/bin/env python3
import math

import trainctl


class Halving(trainctl.Precision):
    """float16 with a loss scale that is halved after an overflow"""

    init_scale = trainctl.Option(65536.0, min=1, max=2**24, doc="Loss scale of the first step.")
    interval = trainctl.Option(2000, min=1, unit="steps", doc="Good steps after which the scale doubles.")

    def policy(self):
        if math.frexp(self.init_scale)[0] != 0.5:
            raise trainctl.OptionError("init_scale", f"{self.init_scale:g} is not a power of two, so scaling would round gradients", "write 65536")
        self.scale, self.good, self.skipped = self.init_scale, 0, 0
        casts = {"linear": "lower", "conv2d": "lower", "cross_entropy": "f32", "mse": "f32"}
        return trainctl.Policy("float16, halving", casts, lower="f16", scale=self.scale, dynamic=True)

    def update(self, found_inf):
        if found_inf:
            self.scale, self.good, self.skipped = max(self.scale / 2, 1.0), 0, self.skipped + 1
            return trainctl.Scale(self.scale, skip=True, skipped=self.skipped)
        self.good, self.skipped = self.good + 1, 0
        if self.good == self.interval:
            self.scale, self.good = min(self.scale * 2, 2.0**24), 0
        return trainctl.Scale(self.scale)

    def state(self):  # everything that later updates depend on
        return {"scale": self.scale, "good": self.good}

    def load(self, state):
        self.scale, self.good, self.skipped = state["scale"], int(state["good"]), 0


trainctl.serve(Halving)
