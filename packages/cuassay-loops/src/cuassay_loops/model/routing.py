"""Choices of experts: when two of them are equal, and how one state's choices are taken again.

A router is a discontinuity: rounding somewhere before it sends a token elsewhere, in correct runs
as in others. Gradients at the same state are therefore compared on the choices of the trusted run.
Where the candidate is the router itself, its choice is judged by the values it selects: experts
whose probabilities equal those of the best, to rounding, are the same choice; others stay, and
the run shows what they do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence

import torch

from cuassay_loops.kernels import KernelFault

# A float32 soft-max errs by a few units of rounding, and by one of the largest logit.
_UNIT = 2.0**-23
_UNITS = 4.0


class Routes:
    """The choices that a trusted run made at a state. `part` numbers the parts of a batch."""

    def __init__(self) -> None:
        self.part: Hashable = 0
        self._kept: dict[tuple[Hashable, int], torch.Tensor] = {}

    @contextlib.contextmanager
    def at(self, rows: Sequence[int], positions: Sequence[int]) -> Iterator[None]:
        """Say which sequences at which positions the tokens of the next calls are."""
        yield

    def repeat(self, order: torch.Tensor, *, samples: int) -> None:
        """Let row i of a batch of duplicates take the choices of sample `order[i]`."""
        for key, chosen in self._kept.items():
            if key[0] == self.part:
                shaped = chosen.reshape(samples, -1, chosen.shape[1])
                self._kept[key] = shaped[order].flatten(0, 1)

    def known(self, layer: int, *, trusted: bool) -> torch.Tensor | None:
        """Return the choices that tokens make again, None where they choose for themselves."""
        return None if trusted else self._kept.get((self.part, layer))

    def settled(
        self,
        layer: int,
        logits: torch.Tensor,
        answer: tuple[torch.Tensor, ...],
        *,
        trusted: bool,
        judged: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weights and choices, (tokens, top) each, that the model goes on with.

        `answer` is the router's own pair, `judged` says that it is a candidate's. Raises
        KernelFault for a choice that is no expert.
        """
        weights, chosen = answer
        if judged:
            experts = logits.shape[1]
            low, high = int(chosen.min()), int(chosen.max())
            if low < 0 or high >= experts:
                wrong = low if low < 0 else high
                raise KernelFault(
                    f"output 'experts_of' holds {wrong}; expected experts from 0 to {experts - 1}"
                )
        kept = self.known(layer, trusted=trusted)
        if kept is None:
            if trusted:
                self._kept[self.part, layer] = chosen
            return weights, chosen
        # The weights of the kept choices: the router's own where it chose them as well.
        match = kept.unsqueeze(2) == chosen.unsqueeze(1)
        own = (match.to(weights.dtype) * weights.nan_to_num().unsqueeze(1)).sum(dim=2)
        own = torch.where(weights.isfinite().all(dim=1, keepdim=True), own, weights)
        afresh = torch.softmax(logits.gather(1, kept), dim=-1)
        again = torch.where(match.any(dim=2).all(dim=1, keepdim=True), own, afresh)
        if not judged:
            return again, kept
        right = same_choice(logits, chosen).unsqueeze(1)
        return torch.where(right, again, weights), torch.where(right, kept, chosen)


class ForcedRoutes(Routes):
    """Choices of known sequences: `choices[row][layer]` is (length, top) int64."""

    def __init__(self, choices: Sequence[Sequence[torch.Tensor]]) -> None:
        super().__init__()
        self._choices = choices
        self._where: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def at(self, rows: Sequence[int], positions: Sequence[int]) -> Iterator[None]:
        """Let tokens of these sequences take the known choices within the block."""
        self._where = list(zip(rows, positions, strict=True))
        try:
            yield
        finally:
            self._where = []

    def known(self, layer: int, *, trusted: bool) -> torch.Tensor | None:
        """Return the choices of the present tokens; None outside of `at`."""
        if not self._where or not self._choices[0]:
            return None
        return torch.stack([self._choices[row][layer][at] for row, at in self._where])


def same_choice(logits: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return, a token, whether its choices are as probable as the best, (tokens,) bool.

    `logits` is (tokens, experts), `chosen` (tokens, top) int64. A choice made twice is wrong.
    """
    wide = logits.double()
    probabilities = torch.softmax(wide, dim=-1)
    best = probabilities.topk(chosen.shape[1], dim=-1).values
    found = probabilities.gather(1, chosen).sort(dim=-1, descending=True).values
    allowed = (_UNITS + wide.abs().amax(dim=-1, keepdim=True)) * _UNIT * best
    ordered = chosen.sort(dim=-1).values
    distinct = (ordered[:, 1:] != ordered[:, :-1]).all(dim=-1)
    return ((found - best).abs() <= allowed).all(dim=-1) & distinct
