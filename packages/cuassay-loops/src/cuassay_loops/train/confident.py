"""Tokens of which the model is sure, compared apart from the others.

The gradient of a token's target logit is p - 1. Formed from a p that was rounded to bfloat16 it is
off by up to 2^-9, which is nothing beside the gradients of tokens that are still to be learned, and
everything where p is close to 1: a run's sums never show it. So at the same state the rows of the
loss's gradient are compared for sure tokens alone, each row in units of its trusted norm.

A float32 soft-max errs by some units of rounding itself, a relative error of as many over 1 - p:
that is the floor of the band, and tokens of a larger p than the last limit tell nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from cuassay_loops.kernels import Value
from cuassay_loops.sequential import LEAN, Group, Pair
from cuassay_loops.train import pairs

SITES = ("cross_entropy_backward", "linear_cross_entropy_backward")
RANGES = ((0.9, 0.99), (0.99, 1.0 - 2.0**-11))
_SOFTMAX_ERROR = 8.0 * 2.0**-24  # of a probability near 1, whatever the order of its sum
_ENOUGH = 8  # tokens: the mean of fewer says little
_MODES = 3

_Call = tuple[Sequence[Value], torch.Tensor]


class SureTokens:
    """Hears the loss's gradient in every mode of a comparison, and compares sure tokens."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._calls: list[_Call] = []

    def groups(self) -> dict[str, Group]:
        """Return one group a range of probabilities."""
        found = {}
        for low, high in RANGES:
            floor = _SOFTMAX_ERROR / (1.0 - high)
            name = _name(low, high)
            found[name] = Group(name=name, floor=floor, lean=max(LEAN, floor))
        return found

    def hear(self, site: str, values: Sequence[Value], outputs: Sequence[torch.Tensor]) -> None:
        """Take a call of the model into account."""
        if site == self._site:
            self._calls.append((values, outputs[0].detach()))

    def compared(self) -> Mapping[str, Pair]:
        """Return the pairs of what was heard since the last call: modes one after another."""
        calls, self._calls = self._calls, []
        parts = len(calls) // _MODES
        sure = torch.cat([probability(values) for values, _ in calls[:parts]])
        modes = [
            torch.cat([rows for _, rows in calls[mode * parts : (mode + 1) * parts]]).double()
            for mode in range(_MODES)
        ]
        size = modes[0].norm(dim=1, keepdim=True)
        found: dict[str, Pair] = {}
        for low, high in RANGES:
            chosen = (sure > low) & (sure <= high) & (size.squeeze(1) > 0)
            if int(chosen.sum()) >= _ENOUGH:
                name = _name(low, high)
                scaled = [{name: rows[chosen] / size[chosen]} for rows in modes]
                found |= pairs.measure_pairs(*scaled)
        return found


def _name(low: float, high: float) -> str:
    return f"tokens of p {low:g} to {high:.4g}"


def probability(values: Sequence[Value]) -> torch.Tensor:
    """Return the probability of each row's target, float64; 0 where it has none."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if len(tensors) == 4:  # states, the head's weight, targets, factors
        logits, targets = tensors[0].float() @ tensors[1].float().T, tensors[2]
    else:
        logits, targets = tensors[0], tensors[1]
    wide = torch.log_softmax(logits.double(), dim=-1)
    picked = wide.gather(1, targets.clamp_min(0).unsqueeze(1)).squeeze(1).exp()
    return torch.where(targets >= 0, picked, 0.0)
