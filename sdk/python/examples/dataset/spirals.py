#!/usr/bin/env python3
import numpy as np
import trainctl


class Spirals(trainctl.Dataset):
    """two interleaved spirals, a small problem that no linear model solves"""

    turns = trainctl.Option(1.5, min=0.1, doc="Turns of each arm; more turns are harder to learn.")
    noise = trainctl.Option(0.02, min=0, doc="Standard deviation of the distance from the arm; the spiral has radius 1.")

    def open(self, run):
        self.data = {"train": self.draw(4000, run.seed), "test": self.draw(1000, run.seed + 1)}

    def draw(self, n, seed):
        random, arm = np.random.default_rng(seed), np.arange(n) % 2
        radius = np.sqrt(random.random(n))  # evenly spread along the arm
        angle = 2 * np.pi * self.turns * radius + np.pi * arm
        points = radius * [np.cos(angle), np.sin(angle)] + random.normal(0, self.noise, (2, n))
        return points.T.astype(np.float32), arm.astype(np.int32)

    def spec(self):
        return trainctl.Spec(input=trainctl.f32(2), target=trainctl.i32(), classes=2, train=4000, test=1000,
                             fingerprint=trainctl.fingerprint(*self.data["train"], *self.data["test"]))

    def batch(self, indices, out):
        out.take(*self.data[out.split])


trainctl.serve(Spirals)
