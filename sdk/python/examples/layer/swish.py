#!/usr/bin/env python3
import numpy as np
import trainctl


class Swish(trainctl.Layer):
    """x·sigmoid(beta·x) with a learned beta"""

    beta = trainctl.Option(1.0, doc="The beta to start with; 0 starts with x/2.")

    def describe(self, shape):
        return trainctl.LayerSpec(params={"beta": trainctl.Param(1, constant=self.beta)})

    def forward(self, c):
        c.y[:] = c.x * sigmoid(c.params["beta"] * c.x)

    def backward(self, c):
        x, beta = c.x, c.params["beta"]
        s = sigmoid(beta * x)
        c.dx[:] = c.dy * s * (1 + beta * x * (1 - s))
        c.dparams["beta"] += np.sum(c.dy * x * x * s * (1 - s))


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)  # 1/(1+exp(-x)) would overflow


trainctl.serve(Swish)
