"""Draws stripes of saturated colours, saves them as JPEG of the kinds that
ImageNet has, and writes the pixels that Pillow (libjpeg-turbo) decodes, which
torchvision gives too: python jpeg.py"""
import numpy as np
from PIL import Image

COLOURS = [(255, 0, 0), (0, 0, 255), (0, 255, 0), (255, 255, 0), (255, 0, 255), (0, 255, 255)]


def stripes(width, height):
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.array(COLOURS, np.uint8)[(x // 5 + y // 7 + (x + y) % 2) % 6 if width < 5 else (x // 5 + y // 7) % 6])


turned = Image.Exif()
turned[0x112] = 6  # which nobody obeys
KINDS = {
    "stripes422": (27, 21, dict(subsampling=1)),
    "stripes420": (27, 21, dict(subsampling=2)),
    "stripes444": (27, 21, dict(subsampling=0)),
    "narrow422": (3, 19, dict(subsampling=1)),  # libjpeg repeats colours of so narrow ones
    "narrow420": (4, 19, dict(subsampling=2)),
    "progressive": (27, 21, dict(subsampling=2, progressive=True)),
    "restarts": (37, 35, dict(subsampling=2, restart_marker_blocks=1, exif=turned)),
    "grey": (27, 21, dict()),
}
for name, (width, height, options) in KINDS.items():
    image = stripes(width, height)
    if name == "grey":
        image = image.convert("L")
    image.save(name + ".jpg", quality=90, **options)
    open(name + ".rgb", "wb").write(Image.open(name + ".jpg").convert("RGB").tobytes())
