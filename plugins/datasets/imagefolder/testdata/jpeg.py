"""Draws stripes of saturated colours, saves them as baseline JPEG with halved
colour planes, and writes the pixels that Pillow (libjpeg-turbo) decodes, which
torchvision gives too: python jpeg.py"""
import numpy as np
from PIL import Image

COLOURS = [(255, 0, 0), (0, 0, 255), (0, 255, 0), (255, 255, 0), (255, 0, 255), (0, 255, 255)]
y, x = np.mgrid[0:21, 0:27]
a = np.array(COLOURS, np.uint8)[(x // 5 + y // 7) % 6]
for subsampling, name in ((1, "stripes422"), (2, "stripes420")):
    Image.fromarray(a).save(name + ".jpg", quality=90, subsampling=subsampling)
    open(name + ".rgb", "wb").write(Image.open(name + ".jpg").convert("RGB").tobytes())
