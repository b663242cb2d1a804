"""Precision plugins: which operations run in which type, and the loss scale."""

import dataclasses

from . import _arrays
from ._plugin import Plugin

UPDATE = 65  # the operation's number

_CASTS = {"none": 0, "lower": 1, "f32": 2, "promote": 3, "refused": 4}


@dataclasses.dataclass
class Policy:
    """The precision of a run. ``casts`` maps operations ("linear", "conv2d", "cross_entropy") to
    what happens to their inputs, as in torch.autocast: "lower" casts them to the type ``lower``,
    "f32" to float32, "promote" to the widest of them, "refused" ends the run with a message, and
    "none", as for every operation that is not listed, leaves them."""

    name: str
    casts: dict = dataclasses.field(default_factory=dict)
    lower: str = ""  # "f16" or "bf16"
    params: str = "f32"  # type of the parameters
    batch_norm_f32: bool = False
    master_weights: bool = False  # float32 copies of half parameters in the optimizer
    scale: float = 1.0  # of the first step's loss
    dynamic: bool = False  # steps with infinities are skipped, and the scale changes
    properties: dict = dataclasses.field(default_factory=dict)  # shown by trainctl plan

    def message(self) -> dict:
        """The fields of the protocol's PolicyReply."""
        return {
            "name": self.name, "params": _arrays.NUMBERS[self.params], "batch_norm_f32": self.batch_norm_f32,
            "master_weights": self.master_weights, "lower": _arrays.NUMBERS.get(self.lower, 0),
            "casts": {op: _CASTS[cast] for op, cast in self.casts.items()}, "scale": float(self.scale),
            "dynamic": self.dynamic, "properties": [{"name": str(k), "value": str(v)} for k, v in self.properties.items()],
        }


@dataclasses.dataclass(frozen=True)
class Scale:
    """The loss scaler after a step."""

    scale: float  # for the next step
    skip: bool = False  # the optimizer must not apply this step
    skipped: int = 0  # steps skipped in a row


class Precision(Plugin):
    """A precision policy. Every rank has its own instance; all get the same calls and agree without
    communication. ``policy`` is the first call."""

    kind = "precision"

    def policy(self) -> Policy:
        """The policy, before the plan is built. Options are attributes by now."""
        raise NotImplementedError(f"{type(self).__name__} needs a method policy")

    def update(self, found_inf: bool) -> Scale:
        """Called once per optimizer step. It depends on the sequence of arguments alone."""
        return Scale(1.0)

    def state(self) -> dict:
        """Everything that later updates depend on, as floats by name, for checkpoints. The scale of
        the next step is "scale" or "loss_scale"."""
        return {}

    def load(self, state: dict):
        """Restores what ``state`` returned. It is called after ``policy``."""
