"""The messages of the plugin protocol: a protobuf encoder and decoder that follows the tables
of zz_protocol. It exists so that the package needs grpcio and numpy alone.

Format: https://protobuf.dev/programming-guides/encoding
"""

import struct
import types

from .zz_protocol import MESSAGES

# google.rpc.Status, whose details hold the protocol's Error.
STATUS = {
    "google.rpc.Status": {1: ("code", "int32", ""), 2: ("message", "string", ""), 3: ("details", "google.protobuf.Any", "repeated")},
    "google.protobuf.Any": {1: ("type_url", "string", ""), 2: ("value", "bytes", "")},
}
_TABLES = {**MESSAGES, **STATUS}
_VARINTS = {"bool", "int32", "int64", "uint32", "uint64"}
_EMPTY = {"string": "", "bytes": b"", "bool": False, "double": 0.0}


def encode(name: str, values: dict) -> bytes:
    """The bytes of a message, from a dict of its fields. Missing fields and None are not set."""
    out = bytearray()
    for number, (field, kind, label) in _TABLES[name].items():
        value = values.get(field)
        if value is None:
            continue
        if label == "map":
            for k, v in sorted(value.items()):
                _put(out, number, kind, {"key": k, "value": v})
        elif label == "repeated" and kind in _VARINTS:
            if len(value):
                _put(out, number, "bytes", b"".join(_varint(int(v)) for v in value))
        elif label == "repeated":
            for v in value:
                _put(out, number, kind, v)
        elif value or label == "optional" or kind in _TABLES:
            _put(out, number, kind, value)
    return bytes(out)


def decode(name: str, data: bytes) -> types.SimpleNamespace:
    """A message with an attribute for each field. Messages that are not set are None."""
    table = _TABLES[name]
    out = {field: _unset(kind, label) for field, kind, label in table.values()}
    at, end = 0, len(data)
    while at < end:
        key, at = _read_varint(data, at)
        wire, (field, kind, label) = key & 7, table.get(key >> 3, ("", "", ""))
        value, at = _read(data, at, wire)
        if not field:
            continue
        if label == "repeated" and kind in _VARINTS and wire == 2:
            inner = 0
            while inner < len(value):
                v, inner = _read_varint(value, inner)
                out[field].append(_scalar(kind, v))
        elif label == "map":
            entry = decode(kind, value)
            out[field][entry.key] = entry.value
        elif label == "repeated":
            out[field].append(_scalar(kind, value))
        else:
            out[field] = _scalar(kind, value)
    return types.SimpleNamespace(**out)


def _unset(kind: str, label: str):
    if label == "repeated":
        return []
    if label == "map":
        return {}
    if label == "optional" or kind in _TABLES:
        return None
    return _EMPTY.get(kind, 0)


def _put(out: bytearray, number: int, kind: str, value):
    if kind in _VARINTS:
        out += _varint(number << 3) + _varint(int(value))
    elif kind == "double":
        out += _varint(number << 3 | 1) + struct.pack("<d", value)
    else:
        if kind == "string":
            value = value.encode(errors="backslashreplace")
        elif kind in _TABLES:
            value = encode(kind, value)
        out += _varint(number << 3 | 2) + _varint(len(value))
        out += value


def _varint(v: int) -> bytes:
    v &= (1 << 64) - 1  # two's complement
    if v < 0x80:
        return bytes((v,))
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a damaged message: a number without an end")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (1 << 64) - 1, at
        shift += 7


def _read(data: bytes, at: int, wire: int):
    if wire == 0:
        return _read_varint(data, at)
    size = {1: 8, 5: 4}.get(wire)
    if wire == 2:
        size, at = _read_varint(data, at)
    if size is None or at + size > len(data):
        raise ValueError(f"a damaged message: a field of wire type {wire} at byte {at} of {len(data)}")
    return data[at:at + size], at + size


def _scalar(kind: str, value):
    if kind == "string":
        return bytes(value).decode()
    if kind == "bytes":
        return bytes(value)
    if kind == "bool":
        return value != 0
    if kind == "double":
        return struct.unpack("<d", value)[0]
    if kind in ("int32", "int64"):
        return value - (1 << 64) if value >> 63 else value
    if kind in _TABLES:
        return decode(kind, value)
    return value
