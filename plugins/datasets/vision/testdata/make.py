"""Writes what torchvision makes of an image, for every transform."""
import base64
import json
import math
import os

import torch
import torchvision.transforms.functional as F

torch.manual_seed(5)
h, w = 20, 26
smooth = torch.nn.functional.interpolate(torch.rand(1, 3, 5, 6), (h, w), mode="bilinear")[0]
image = ((0.7 * smooth + 0.3 * torch.rand(3, h, w)) * 255).to(torch.uint8)
image[:, :3, :3] = 17  # grey


def shear(x, y, image):
    return F.affine(image, 0.0, [0, 0], 1.0, [math.degrees(math.atan(x)), math.degrees(math.atan(y))], center=[0, 0])


def cases_of(image):
    return {
        "brightness 1.37": F.adjust_brightness(image, 1.37), "brightness 0.4": F.adjust_brightness(image, 0.4),
        "contrast 1.9": F.adjust_contrast(image, 1.9), "contrast 0.1": F.adjust_contrast(image, 0.1),
        "saturation 1.63": F.adjust_saturation(image, 1.63), "saturation 0.25": F.adjust_saturation(image, 0.25),
        "hue 0.3": F.adjust_hue(image, 0.3), "hue -0.07": F.adjust_hue(image, -0.07),
        "sharpness 1.27": F.adjust_sharpness(image, 1.27), "sharpness 0.1": F.adjust_sharpness(image, 0.1),
        "posterize 5": F.posterize(image, 5), "solarize 178.5": F.solarize(image, 178.5), "autocontrast 0": F.autocontrast(image), "equalize 0": F.equalize(image),
        "rotate 9": F.rotate(image, 9.0), "rotate -30": F.rotate(image, -30.0), "shearx 0.09": shear(0.09, 0, image), "shearx -0.3": shear(-0.3, 0, image), "sheary 0.3": shear(0, 0.3, image),
        "translatex 5": F.affine(image, 0.0, [5, 0], 1.0, [0.0, 0.0]), "translatey -4": F.affine(image, 0.0, [0, -4], 1.0, [0.0, 0.0]),
    }


cases, grey_cases = cases_of(image), cases_of(image[1:2])
code = lambda t: base64.b64encode(t.numpy().tobytes()).decode()
json.dump({"width": w, "height": h, "image": code(image), "cases": {k: code(v.contiguous()) for k, v in cases.items()},
           "grey": code(image[1:2].contiguous()), "grey_cases": {k: code(v.contiguous()) for k, v in grey_cases.items()}},
          open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "transforms.json"), "w"), indent=1)
