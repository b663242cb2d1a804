"""Plugins for trainctl in Python.

A plugin is a program that trainctl starts, one process per rank. Derive a class from
:class:`Dataset`, :class:`Precision`, :class:`Layer`, :class:`Observer` or :class:`Backend`, and pass it to :func:`serve`::

    #!/usr/bin/env python3
    import trainctl

    class Numbers(trainctl.Dataset):
        ...

    trainctl.serve(Numbers)

The script needs a shebang line and ``chmod +x``; a configuration names it by its path,
``plugin = "./numbers.py"``. ``trainctl plugins test ./numbers.py`` runs the conformance suite.
"""

from ._errors import CorruptData, EndOfData, Error, MismatchError, OptionError, PeerError, StallError, Unavailable
from ._options import Option
from ._serve import serve
from .backend import Backend, Call, Group
from .dataset import Batch, Dataset, Run, Spec, TensorSpec, f32, fingerprint, i32
from .layer import Layer, LayerCall, LayerSpec, Param
from .observer import Events, ObservedRun, Observer
from .precision import Policy, Precision, Scale

__all__ = [
    "Backend", "Batch", "Call", "CorruptData", "Dataset", "EndOfData", "Error", "Events", "Group", "Layer", "LayerCall",
    "LayerSpec", "MismatchError", "ObservedRun", "Observer", "Option", "OptionError", "Param", "PeerError", "Policy", "Precision",
    "Run", "Scale", "Spec", "StallError", "TensorSpec", "Unavailable", "f32", "fingerprint", "i32", "serve",
]
