"""The observer "wandb": writes a run to Weights & Biases, or to another package with its functions
``init``, ``log`` and ``finish``, such as trackio.

The program ``trainctl-observer-wandb`` serves it. The package is imported when a run begins.
"""

import importlib
import inspect

from ._errors import Unavailable
from ._options import Option
from ._serve import serve
from .observer import Observer

# Members of the events "step" and "eval" that become metrics, and their names.
_METRICS = {
    "step": {
        "loss_mean": "train/loss", "accuracy": "train/accuracy", "lr": "train/lr", "grad_norm": "train/grad_norm",
        "scale": "train/loss_scale", "samples_per_sec": "perf/samples_per_sec", "step_ms": "perf/step_ms",
    },
    "eval": {"loss": "eval/loss", "accuracy": "eval/accuracy", "perplexity": "eval/perplexity", "bits_per_byte": "eval/bits_per_byte"},
}


class Wandb(Observer):
    """writes the run to Weights & Biases or trackio"""

    name = "wandb"

    package = Option("wandb", doc='Package that is imported: "wandb", or "trackio".')
    project = Option("trainctl", doc="Project that the run belongs to.")
    entity = Option("", doc="User or team of Weights & Biases; empty: the default of the account.")
    group = Option("", doc="Group of runs.")
    mode = Option("", choices=("", "online", "offline", "disabled"), doc="Mode of Weights & Biases; empty: WANDB_MODE.")

    def open(self, run):
        self._run, self._code = None, 1
        try:
            package = importlib.import_module(self.package)
        except ImportError as e:
            raise Unavailable(f"this Python cannot import {self.package} ({e}); pip install {self.package}, or set the option package") from None
        wanted = {
            "project": self.project, "name": run.name, "config": run.config, "entity": self.entity, "group": self.group, "mode": self.mode,
            "id": run.resume, "resume": "allow" if run.resume else "",
        }
        accepted = inspect.signature(package.init).parameters  # trackio has fewer
        self._package = package
        self._run = package.init(**{k: v for k, v in wanted.items() if v and k in accepted})
        return getattr(self._run, "id", None) or run.name

    def observe(self, events):
        for e in events:
            kind = e["event"]
            values = {name: e[member] for member, name in _METRICS.get(kind, {}).items() if e.get(member) is not None}
            if values:
                self._run.log(values, step=e["step"])
            elif kind == "run_done":
                self._code = e.get("exit_code", 1)

    def finish(self, summary):
        if hasattr(self._run, "summary"):
            self._run.summary.update({k: summary[k] for k in ("status", "steps", "params_sha256") if k in summary})
        self._end()

    def close(self):
        if getattr(self, "_run", None) is not None:  # the end of the run was not observed
            self._end()

    def _end(self):
        end, self._run = getattr(self._run, "finish", self._package.finish), None
        if "exit_code" in inspect.signature(end).parameters:
            end(exit_code=self._code)
        else:
            end()


def main():
    serve(Wandb)
