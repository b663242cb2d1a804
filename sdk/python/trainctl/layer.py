"""Layers: plugins that compute layers of the model."""

import dataclasses
import itertools
import math

import numpy as np

from . import _arrays
from ._errors import protocol_error
from ._options import assign
from ._plugin import Plugin
from ._ring import Submission
from .zz_protocol import DTYPES

FORWARD, BACKWARD = 66, 67  # the operations' numbers
_ALIGN = 64  # where tensors of a call begin
_MOST_SAMPLES = 1 << 24
_KEPT_CALLS = 256


class Param:
    """A parameter of a layer: ``Param(8, 4, normal=0.02)`` has the shape [8, 4]. trainctl draws its first
    values from the run's seed, equal on all ranks: ``constant``, ``uniform=(low, high)``, or ``normal``, the
    standard deviation around 0."""

    def __init__(self, *shape: int, constant: float = 0.0, uniform: tuple[float, float] | None = None, normal: float | None = None):
        if uniform is not None and normal is not None:
            raise TypeError("a parameter starts from uniform or from normal, not from both")
        self.shape = tuple(int(n) for n in shape)
        self.init, self.a, self.b = "constant", float(constant), 0.0
        if uniform is not None:
            self.init, self.a, self.b = "uniform", float(uniform[0]), float(uniform[1])
        elif normal is not None:
            self.init, self.a = "normal", float(normal)


@dataclasses.dataclass(frozen=True)
class LayerSpec:
    """What a layer is."""

    shape: tuple[int, ...] | None = None  # of the output, without the batch; None: that of the input
    params: dict[str, Param] = dataclasses.field(default_factory=dict)  # by name: lower-case letters, digits and _
    save_output: bool = False  # ``backward`` reads ``y`` instead of ``x``
    flops: int = 0  # floating-point operations of ``forward`` for one sample, for trainctl plan; 0: unknown


class LayerCall:
    """The tensors of a call: NumPy views of the memory that it shares with the rank, float32 or float64 as the
    run computes, valid during the call. ``batch`` samples stand in the first dimension of ``x``, ``y``, ``dy``
    and ``dx``. Assigning to a tensor writes to its memory; what a call reads is read-only.

    ``forward`` reads ``x`` and ``params``, and writes all of ``y``. ``backward`` reads ``x``, or ``y`` with
    ``save_output``, and ``dy`` and ``params``; it writes all of ``dx``, and adds to ``dparams``, which start at
    zero. Both are dicts by the parameters' names. What a call has no use for is None."""

    __slots__ = ("batch", "x", "y", "params", "dy", "dx", "dparams")

    batch: int
    x: np.ndarray
    y: np.ndarray
    params: dict[str, np.ndarray]
    dy: np.ndarray
    dx: np.ndarray
    dparams: dict[str, np.ndarray]

    def __init__(self, **tensors):
        for name in self.__slots__:
            object.__setattr__(self, name, tensors.get(name))

    def __setattr__(self, name, value):
        _write(getattr(self, name), value)


class _Named(dict):
    """Arrays by name."""

    def __setitem__(self, name, value):
        _write(self[name], value)


def _write(to: np.ndarray, value):
    if value is not to:  # as after +=
        to[...] = value


class Layer(Plugin):
    """Computes layers of the model, each with an instance of its own, in one process for each rank. ``describe``
    is the first call. An instance keeps nothing from one ``forward`` or ``backward`` to the next: equal calls
    give equal bits, so that a process that dies can be replaced."""

    kind = "layer"

    def describe(self, shape: tuple[int, ...]) -> LayerSpec:
        """What the layer is for inputs of a shape, without the batch. Options are attributes by now. It depends on
        them and on the shape alone; raise an exception for a shape that the layer does not take."""
        return LayerSpec()

    def forward(self, c: LayerCall):
        """Writes ``c.y``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method forward")

    def backward(self, c: LayerCall):
        """Writes ``c.dx`` and adds to ``c.dparams``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method backward")


class Layers:
    """The layers that were described, and their calls on either data plane. A layer gets its calls in the same
    memory again and again, so their arrays are made once."""

    def __init__(self):
        self._described: dict[int, _Described] = {}
        self._calls: dict[tuple[int, bytes], _Prepared] = {}

    def instances(self) -> list[Layer]:
        return [d.layer for d in self._described.values()]

    def describe(self, layer: Layer, request) -> dict:
        """Describes a layer; the fields of the protocol's DescribeLayerReply."""
        assign(layer, request.options_json)
        spec = layer.describe(tuple(request.shape))
        self.forget()
        self._described[request.layer] = d = _Described(layer, tuple(request.shape), spec)
        params = [{"name": str(name), "shape": p.shape, "init": p.init, "a": p.a, "b": p.b} for name, p in spec.params.items()]
        return {"shape": d.output, "params": params, "save_output": bool(spec.save_output), "flops": int(spec.flops)}

    def forget(self):
        """Lets go of the memory of earlier calls."""
        self._calls.clear()

    def from_ring(self, data: bytes, number: int, arena) -> "_Prepared":
        """Checks a submission and finds its tensors; arena(number) is the arena with a number."""
        call = self._calls.get((number, data))
        if call is None:
            sub = Submission(data, number)
            memory = arena(sub.arena).part(sub.offset, sub.size)
            if sub.offset % _ALIGN:
                raise protocol_error(f"a call of layer {number} lies at offset {sub.offset}")
            if len(self._calls) >= _KEPT_CALLS:
                self.forget()
            call = self._calls[number, data] = self._prepare(number, sub.op == BACKWARD, sub.dtype, sub.count, lambda total: memory)
        return call

    def from_message(self, r) -> "tuple[_Prepared, memoryview]":
        """A call with memory of its own, and the part of it that the reply has, for the inline data plane."""
        memory = bytearray()

        def room(total: int) -> bytearray:
            memory.extend(bytes(max(total, len(r.data))))
            memory[:len(r.data)] = r.data
            return memory

        call = self._prepare(r.layer, r.backward, r.dtype, r.batch, room)
        if call.inputs != len(r.data):
            raise protocol_error(f"a call of layer {r.layer} has {len(r.data)} bytes, not {call.inputs}")
        return call, memoryview(memory)[call.inputs:]

    def _prepare(self, number: int, backward: bool, dtype: int, batch: int, memory) -> "_Prepared":
        d = self._described.get(number)
        if d is None:
            raise protocol_error(f"layer {number} was not described")
        if DTYPES.get(dtype) not in ("f32", "f64") or not 1 <= batch <= _MOST_SAMPLES:
            raise protocol_error(f"a call of layer {number} with {batch} samples of the type {dtype}")
        return d.prepare(backward, _arrays.NUMPY[DTYPES[dtype]], batch, memory)


class _Described:
    """A layer and its shapes."""

    def __init__(self, layer: Layer, shape: tuple[int, ...], spec: LayerSpec):
        self.layer, self._input, self._spec = layer, shape, spec
        self.output = shape if spec.shape is None else tuple(int(n) for n in spec.shape)
        self._params = {str(name): p.shape for name, p in spec.params.items()}

    def prepare(self, backward: bool, dtype: np.dtype, batch: int, memory) -> "_Prepared":
        """The call in memory(total), which has as many bytes: what it reads, and then what it writes."""
        x, y, params = (batch, *self._input), (batch, *self.output), list(self._params.values())
        if backward:
            reads, writes = [y if self._spec.save_output else x, y, *params], [x, *params]
        else:
            reads, writes = [x, *params], [y]
        shapes = reads + writes
        sizes = [-(-math.prod(s) * dtype.itemsize // _ALIGN) * _ALIGN for s in shapes]
        *starts, total = itertools.accumulate(sizes, initial=0)
        mem = memoryview(memory(total))
        if len(mem) != total:
            raise protocol_error(f"a call of {type(self.layer).__name__} has {len(mem)} bytes, not {total}")
        tensors = [_arrays.view(mem[at:], dtype, s) for at, s in zip(starts, shapes, strict=True)]
        for t in tensors[:len(reads)]:
            t.flags.writeable = False
        first, names = starts[len(reads)], list(self._params)
        if not backward:
            x, *rest, y = tensors
            return _Prepared(self.layer.forward, LayerCall(batch=batch, x=x, y=y, params=_named(names, rest)), first, None)
        saved, dy, *rest = tensors
        params, dx, grads = rest[:len(names)], rest[len(names)], rest[len(names) + 1:]
        call = LayerCall(batch=batch, dy=dy, dx=dx, params=_named(names, params), dparams=_named(names, grads),
                         **{"y" if self._spec.save_output else "x": saved})
        at = len(reads) + 1  # of the gradients of parameters
        return _Prepared(self.layer.backward, call, first, _arrays.view(mem[starts[at]:], np.dtype(np.uint8), sum(sizes[at:])) if names else None)


def _named(names, arrays) -> _Named:
    return _Named(zip(names, arrays, strict=True))


class _Prepared:
    """A call that can be made, again and again."""

    __slots__ = ("_method", "_call", "_sums", "inputs")

    def __init__(self, method, call: LayerCall, inputs: int, sums: np.ndarray | None):
        self._method, self._call, self._sums = method, call, sums
        self.inputs = inputs  # bytes that it reads, in front

    def make(self):
        if self._sums is not None:
            self._sums.fill(0)
        self._method(self._call)
