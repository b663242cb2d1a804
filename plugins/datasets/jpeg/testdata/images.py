"""Writes the JPEG files of the tests with Pillow: python images.py"""

import numpy as np
from PIL import Image

rng = np.random.default_rng(7)
size = (45, 35)
small = Image.fromarray(rng.integers(0, 256, (9, 11, 3), dtype=np.uint8)).resize(size, Image.BICUBIC)
pixels = np.clip(np.array(small, int) + rng.integers(-20, 21, (size[1], size[0], 3)), 0, 255)
image = Image.fromarray(pixels.astype(np.uint8))

image.save("444.jpg", quality=90, subsampling="4:4:4")
image.save("422.jpg", quality=75, subsampling="4:2:2")
image.save("420.jpg", quality=60, subsampling="4:2:0", optimize=True)
image.save("restarts.jpg", quality=85, restart_marker_blocks=2)
image.save("coarse.jpg", quality=3)
image.save("fine.jpg", quality=100, subsampling="4:2:0")
image.convert("L").save("grey.jpg", quality=80)
image.save("progressive.jpg", quality=80, progressive=True)
image.save("rgb.jpg", quality=80, keep_rgb=True)
image.convert("CMYK").save("cmyk.jpg", quality=80)
