"""Takes 2^fraction from a parabola: fast-math taken too far."""

import torch


def _exp(value):
    scaled = (value * 1.4426950408889634).clamp_min(-126.0)
    whole = torch.floor(scaled)
    fraction = scaled - whole
    part = 1.0 + fraction * (0.6565 + 0.3435 * fraction)
    return torch.ldexp(part, whole.int())


def run(logits, cap):
    capped = cap * torch.tanh(logits.float() / cap)
    raised = _exp(capped - capped.amax(-1, keepdim=True))
    return (raised / raised.sum(-1, keepdim=True)).to(logits.dtype)
