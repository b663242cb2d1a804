#!/usr/bin/env python3
import csv

import trainctl


class Curve(trainctl.Observer):
    """The loss of every step as a CSV file"""

    path = trainctl.Option("./loss.csv", doc="File to write; a new run replaces it.")

    def open(self, run):
        self.file = open(self.path, "a" if run.resume else "w", newline="")
        self.csv = csv.writer(self.file)
        if not run.resume:
            self.csv.writerow(["step", "loss"])
        return "appending"  # a process that replaces this one gets it as run.resume

    def observe(self, events):
        for e in events:
            if e["event"] == "step":
                self.csv.writerow([e["step"], "nan" if e["loss_mean"] is None else e["loss_mean"]])
        self.file.flush()  # a batch that was taken is not delivered again

    def close(self):
        if hasattr(self, "file"):
            self.file.close()


trainctl.serve(Curve)
