"""Truth of one case, shared by every candidate: values, achievable errors, yardsticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle.compare.groups import GroupKind
from cuassay.oracle.truth.index import ChosenPlaces


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Yardstick(GroupKind):
    """What trusted implementations achieve on each group of one kind.

    The vectors are float64 (masks bool), one entry a group; energies are in units of
    OutputTruth.unit squared.

    count           elements judged
    energy          max(norm2(scale without reference), norm2(e_ref), norm2(e_lift32))
    signal          norm2(truth), in squared natural units
    judge_energy    enough independent errors, and none dominates the scale
    judge_z         enough independent errors (equal truths share one error: `trust_shared`)
    common          largest normalised score of any draw, at least 1: where one rounding moves a
                    whole group (a row's variance), a group is one sample, not many
    gain_*, bias_*  projection on truth / scale and on 1: norm of the weights, room for a
                    systematic error of 4 u |truth|, the trusted runs' own spread, and whether
                    the weights are spread widely enough for a verdict
    """

    count: Tensor
    energy: Tensor
    signal: Tensor
    judge_energy: Tensor
    judge_z: Tensor
    common: Tensor
    gain_norm: Tensor
    gain_room: Tensor
    gain_trust: Tensor
    judge_gain: Tensor
    bias_norm: Tensor
    bias_room: Tensor
    bias_trust: Tensor
    judge_bias: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """Denominators of the groups of all kinds, side by side: made once, used by every candidate.

    Rows: `base` (2, groups) energy and count, `norm`, `room`, `trust` (2, groups) gain and bias,
    `judged` (4, groups) all four. Nothing in `base` and `norm` is 0.
    """

    base: Tensor
    common: Tensor
    norm: Tensor
    room: Tensor
    trust: Tensor
    judged: Tensor


def joined(sticks: Sequence[Yardstick]) -> Joined:
    """Put the yardsticks of all kinds of groups side by side."""

    def of(*names: str) -> Tensor:
        rows = [torch.cat([getattr(stick, name) for stick in sticks]) for name in names]
        return torch.stack(rows)

    base, norm = of("energy", "count"), of("gain_norm", "bias_norm")
    return Joined(
        base=torch.where(base > 0, base, 1.0),
        common=of("common"),
        norm=torch.where(norm > 0, norm, 1.0),
        room=of("gain_room", "bias_room"),
        trust=of("gain_trust", "bias_trust"),
        judged=of("judge_energy", "judge_z", "judge_gain", "judge_bias"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedBias:
    """Whole-tensor projections of trusted runs, for accumulation over seeds.

    Sums of e * w / scale: of the draws, and of the `known` runs (the reference as written, its
    float32 lift); `norm2` is the sum of w**2 and `room` that of 4 u |truth| |w| / scale.
    `copies` says how many others share an element's error on average (`trust_shared`).
    """

    draws: tuple[float, ...]
    known: tuple[float, ...]
    norm2: float
    room: float
    copies: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputTruth:
    """Truth of one output.

    value           float64 (native dtype for integers and bools), of the output's shape
    scale           float32 achievable error per element, None where answers are exact.
                    0: only the exact answer passes. Negative: an ambiguous element (a
                    discontinuity flips it), judged by the worst-element rule with |scale| only
    alternative     int8 class of the reference as written where it differs from truth's, else
                    -1; None where it never differs
    ambiguous       bool, elements whose truth flips under the noise; None where there is none
    flips_allowed   exact outputs: elements outside `ambiguous` that may differ; quantised
                    ones: codes that may be one step off
    hits            hit count per row of axis 0, for index-addressed outputs
    choice          what its places along an axis obey however they tie; None for other outputs
    ill_conditioned why this output's numbers decide nothing, or empty; the others still do
    element_room    factor on the limit of single elements (trust_left_out)
    least           the smallest scale where all of `value` is finite and every scale positive,
                    else 0: comparisons then look at every element's class
    joined          what `joined` makes of the yardsticks; None where answers are exact
    """

    name: str
    dtype: DType
    value: Tensor
    scale: Tensor | None
    unit: float = 1.0
    yardsticks: Sequence[Yardstick] = ()
    gain: TrustedBias | None = None
    bias: TrustedBias | None = None
    trusted_energy: float = 0.0
    alternative: Tensor | None = None
    ambiguous: Tensor | None = None
    ambiguous_share: float = 0.0
    flips_allowed: int = 0
    quantised: bool = False
    hits: Tensor | None = None
    choice: ChosenPlaces | None = None
    ill_conditioned: str = ""
    element_room: float = 1.0
    least: float = 0.0
    joined: Joined | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """Truth of one case. `kind` is float64 or float32, `reason` says why.

    `runs` is the measured cost of making this truth in plain float64 lifted runs; `draws` how
    many were made.
    """

    outputs: tuple[OutputTruth, ...]
    kind: str
    reason: str
    runs: float = 0.0
    draws: int = 0

    @property
    def ill_conditioned(self) -> str:
        """Why the case decides nothing: no output of it does. Empty where one can be judged."""
        reasons = [output.ill_conditioned for output in self.outputs]
        return "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""
