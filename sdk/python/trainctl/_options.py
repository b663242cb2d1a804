"""The options that a plugin publishes, as attributes of its class."""

import datetime
import json
import re
import typing

from ._errors import protocol_error

_NAMES = {
    bool: "bool", int: "int", float: "float", str: "string", datetime.timedelta: "duration",
    list[int]: "int list", list[float]: "float list", list[str]: "string list",
}


class Option:
    """A key of the plugin's options table::

        class Spirals(trainctl.Dataset):
            turns = trainctl.Option(1.5, min=0, doc="Turns of each arm.")

    trainctl checks what the user wrote, and sets the attribute before it calls ``open`` or
    ``policy``. The type is that of the default, or ``type``: ``bool``, ``int``, ``float``,
    ``str``, ``datetime.timedelta`` (written as "30s"), or a list such as ``list[float]``.
    ``min`` and ``max`` include the limit and hold for elements of lists, and in seconds for
    durations. ``choices`` are the allowed strings.
    """

    def __init__(self, default=None, *, doc: str, type=None, min=None, max=None, unit: str = "", choices=(), required: bool = False):
        self.default, self.doc, self.unit, self.choices, self.required = default, doc, unit, tuple(choices), required
        self.min, self.max = min, max
        self.type = _type_of(default) if type is None else type
        if self.type not in _NAMES:
            raise TypeError(f"an option has the type {self.type}; use one of {', '.join(_NAMES.values())}")
        self.name = ""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else self.default

    def message(self) -> dict:
        """The fields of the protocol's Option message."""
        default = b"" if self.default is None else json.dumps(_plain(self.default)).encode()
        return {
            "name": self.name, "type": _NAMES[self.type], "default_json": default, "unit": self.unit, "min": _number(self.min),
            "max": _number(self.max), "enum": list(self.choices), "required": self.required, "doc": self.doc,
        }

    def line(self) -> str:
        """The option as a line of a description."""
        notes = [_NAMES[self.type]]
        if self.choices:
            notes.append("one of " + ", ".join(f'"{c}"' for c in self.choices))
        if self.required:
            notes.append("required")
        elif self.default is not None:
            notes.append(f"default {_plain(self.default)}")
        return f"{self.name} ({', '.join(notes)}): {self.doc}"


def published(cls) -> list[Option]:
    """The options of a class, those of its bases first."""
    found = {}
    for base in reversed(cls.__mro__):
        found.update({name: o for name, o in vars(base).items() if isinstance(o, Option)})
    return list(found.values())


def assign(instance, options_json: bytes):
    """Sets the attributes of an instance to the checked options."""
    given = json.loads(options_json or b"{}")
    table = {o.name: o for o in published(type(instance))}
    for name, value in given.items():
        if name not in table:
            raise protocol_error(f"the unknown option {name!r}")
        setattr(instance, name, _convert(table[name].type, value))


def _type_of(default):
    if isinstance(default, (list, tuple)):
        kinds = {type(v) for v in default}
        if len(kinds) != 1:
            raise TypeError("an option with an empty or mixed list as its default needs a type, such as list[float]")
        return list[kinds.pop()]
    if default is None:
        raise TypeError("an option without a default needs a type, such as type=str")
    return type(default)


def _number(v):
    return v.total_seconds() if isinstance(v, datetime.timedelta) else None if v is None else float(v)


def _plain(v):
    if isinstance(v, datetime.timedelta):
        micros = v // datetime.timedelta(microseconds=1)
        return f"{micros}us" if micros % 1_000_000 else f"{micros // 1_000_000}s"
    return list(v) if isinstance(v, tuple) else v


def _convert(kind, value):
    if kind is datetime.timedelta:
        return duration(value)
    if typing.get_origin(kind) is list:
        return [typing.get_args(kind)[0](v) for v in value]
    return kind(value)


_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration(text: str) -> datetime.timedelta:
    """Reads a duration as Go writes it: "1m30s"."""
    parts = re.findall(r"([0-9.]+)(ns|us|µs|ms|s|m|h)", text)
    total = sum(float(n) * _SECONDS[unit] for n, unit in parts)
    return datetime.timedelta(seconds=-total if text.startswith("-") else total)
