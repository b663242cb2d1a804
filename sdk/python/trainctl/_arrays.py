"""Element types of the protocol as NumPy types."""

import numpy as np

from .zz_protocol import DTYPES

# bfloat16 has no NumPy type: its bits are uint16.
NUMPY = {
    "f32": np.dtype("f4"), "f64": np.dtype("f8"), "f16": np.dtype("f2"), "bf16": np.dtype("u2"), "i8": np.dtype("i1"),
    "u8": np.dtype("u1"), "i16": np.dtype("i2"), "i32": np.dtype("i4"), "i64": np.dtype("i8"), "bool": np.dtype("?"),
}

NUMBERS = {name: number for number, name in DTYPES.items()}


def take(source: np.ndarray, indices: np.ndarray, out: np.ndarray):
    """Copies rows out of an array that has all of them. Indices are known to be in range."""
    if source.dtype is out.dtype or source.dtype == out.dtype:
        source.take(indices, 0, out, "clip")  # "raise" would copy twice
    else:
        out[...] = source[indices]


def view(memory, dtype: np.dtype, shape) -> np.ndarray:
    """Memory as an array, without a copy."""
    return np.ndarray(shape, dtype, memory)
