"""Reads the variable that chooses TF32 and leaves it unset."""

import os

_OVERRIDE = os.environ.get("NVIDIA_TF32_OVERRIDE")


def run(a, b, scale_a, scale_b):
    wide = a.double() @ b.double().T
    return (wide * scale_a.double()[:, None] * scale_b.double()).bfloat16()
