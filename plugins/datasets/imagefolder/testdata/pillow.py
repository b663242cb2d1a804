"""Writes pillow.json: sums of images that Pillow scaled. The images are a formula, so they need not be
stored. Run: python pillow.py > pillow.json"""
import hashlib
import json

import numpy as np
from PIL import Image


def picture(w, h):
    """The same pixels as picture in transform_test.go."""
    x, y, c = np.meshgrid(np.arange(w), np.arange(h), np.arange(3), indexing="xy")
    return Image.fromarray((x * x * 3 + y * (c + 1) * 7 + x * y * 5 + 40 * c).astype(np.uint8))


def summary(img):
    return hashlib.sha256(img.tobytes()).hexdigest()


out = {"crops": [], "middles": [], "tall": []}
# RandomResizedCrop: crop, then scale to a square.
for w, h, box, side in [(500, 375, (13, 40, 401, 300), 224), (500, 375, (0, 0, 500, 375), 224), (60, 40, (5, 6, 25, 36), 224),
                        (90, 70, (30, 20, 31, 21), 32), (64, 64, (0, 0, 64, 64), 64), (300, 7, (0, 0, 300, 7), 33)]:
    out["crops"].append({"size": [w, h], "box": list(box), "side": side, "sha256": summary(picture(w, h).crop(box).resize((side, side), Image.BILINEAR))})
# Resize of the short side, then CenterCrop (torchvision/transforms/functional.py).
for w, h, short, side in [(500, 375, 256, 224), (375, 500, 256, 224), (224, 224, 256, 224), (100, 41, 37, 32), (70, 100, 37, 32), (8, 8, 9, 8), (333, 500, 256, 223)]:
    full = (short, int(short * h / w)) if w <= h else (int(short * w / h), short)
    x, y = int(round((full[0] - side) / 2.0)), int(round((full[1] - side) / 2.0))
    img = picture(w, h).resize(full, Image.BILINEAR).crop((x, y, x + side, y + side))
    out["middles"].append({"size": [w, h], "short": short, "side": side, "sha256": summary(img)})
# Pillow 13 scales the columns of some tall images first; these are compared pixel by pixel.
for w, h, side in [(33, 200, 17), (41, 100, 12)]:
    img = picture(w, h).resize((side, side), Image.BILINEAR)
    out["tall"].append({"size": [w, h], "side": side, "pixels": img.tobytes().hex()})
print(json.dumps(out, indent=1))
