"""Writes arrays of every element type and order, and what NumPy reads back from them."""
import json
import os

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(7)
x = rng.normal(3, 20, (6, 2, 3))
arrays = {
    "f4": x.astype("<f4"), "f8": x, "big": x.astype(">f8"), "big_i2": x.astype(">i2"),
    "fortran": np.asfortranarray(x.astype("<f4")), "i1": x.astype("i1"), "i4": x.astype("<i4"), "i8": x.astype("<i8"),
    "u1": np.abs(x).astype("u1"), "u2": np.abs(x).astype("<u2"), "b1": x > 0,
    "y": np.array([0, 2, 1, 1, 0, -100]), "y_float": rng.normal(size=6),
}
np.savez_compressed(os.path.join(here, "arrays.npz"), **arrays)
np.save(os.path.join(here, "f4.npy"), arrays["f4"])
np.save(os.path.join(here, "y.npy"), arrays["y"])
np.savez(os.path.join(here, "c16.npz"), x=x.astype("c16"))
standard = (x - x.mean(0)) / x.std(0)
json.dump({"values": {k: np.asarray(v, dtype="f8").ravel().tolist() for k, v in arrays.items()},
           "standard": standard.astype("f4").astype("f8").ravel().tolist()},
          open(os.path.join(here, "want.json"), "w"), indent=1)
