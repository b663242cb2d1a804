"""Writes N random JPEG images and the pixels that torchvision and Pillow decode:
python randomjpegs.py DIR N. TestJPEGsAgainstTorchvision reads them."""
import io
import os
import sys

import numpy as np
import torch
import torchvision
from PIL import Image

CORNERS = np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)], float)
LAYOUTS = ["420", "420", "420", "422", "444", "grey", "420-progressive", "444-progressive", "420-restarts", "420-exif"]


def photo(rng, h, w):
    """Noise with a photo's spectrum, and some edges."""
    d = np.hypot(np.fft.fftfreq(w)[None], np.fft.fftfreq(h)[:, None])

    def plane():
        z = np.fft.ifft2(np.exp(2j * np.pi * rng.random((h, w))) / np.maximum(d, 1 / max(h, w)) ** rng.uniform(1, 1.6)).real
        return (z - z.mean()) / (z.std() + 1e-9)

    light = plane()
    a = np.stack([128 + rng.uniform(30, 70) * (light + 0.4 * plane()) for _ in range(3)], -1)
    for _ in range(6):
        y, x = rng.integers(h), rng.integers(w)
        a[y : y + rng.integers(1, h + 1), x : x + rng.integers(1, w + 1)] *= rng.uniform(0.3, 1.4)
    return a


def gradient(rng, h, w):
    y, x = np.mgrid[0:h, 0:w]
    return np.stack([127.5 + 127.5 * np.sin(rng.uniform(0, 0.2) * x + rng.uniform(0, 0.2) * y + rng.uniform(0, 6)) for _ in range(3)], -1)


def saturated(rng, h, w):
    k = rng.integers(1, 12)
    return CORNERS[np.kron(rng.integers(0, 8, (h // k + 1, w // k + 1)), np.ones((k, k), int))[:h, :w]]


def noise(rng, h, w):
    return rng.integers(0, 256, (h, w, 3)).astype(float)


def encode(rng, pixels, layout):
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    options = dict(quality=int(rng.integers(5, 101)))
    if layout == "grey":
        image = image.convert("L")
    else:
        options["subsampling"] = {"420": 2, "422": 1, "444": 0}[layout[:3]]
    options["progressive"] = layout.endswith("progressive")
    if layout.endswith("restarts"):
        options["restart_marker_blocks"] = int(rng.integers(1, 9))
    if layout.endswith("exif"):
        options["exif"] = Image.Exif()
        options["exif"][0x112] = int(rng.integers(1, 9))
    b = io.BytesIO()
    image.save(b, "JPEG", **options)
    return b.getvalue()


def main(folder, n):
    rng = np.random.default_rng(1)
    os.makedirs(folder, exist_ok=True)
    for i in range(n):
        kind, layout = (photo, gradient, saturated, noise)[i % 4], LAYOUTS[rng.integers(len(LAYOUTS))]
        h, w = rng.integers(1, 97, 2) if i % 3 else rng.integers(100, 400, 2)
        try:
            b = encode(rng, kind(rng, int(h), int(w)), layout)
        except OSError:  # Pillow's buffer was too small for an image that hardly shrinks
            continue
        ours = np.asarray(Image.open(io.BytesIO(b)).convert("RGB"))
        theirs = torchvision.io.decode_jpeg(torch.frombuffer(bytearray(b), dtype=torch.uint8), mode=torchvision.io.ImageReadMode.RGB)
        assert np.array_equal(ours, theirs.permute(1, 2, 0).numpy()), "torchvision and Pillow differ"
        name = os.path.join(folder, f"{i:05d}-{kind.__name__}-{layout}")
        open(name + ".jpg", "wb").write(b)
        open(name + ".rgb", "wb").write(ours.tobytes())


main(sys.argv[1], int(sys.argv[2]))
