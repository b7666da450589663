"""torch's own rms_norm."""

import torch.nn.functional as F


def run(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)
