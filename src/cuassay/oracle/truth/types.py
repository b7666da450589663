"""Truth of one case, shared by every candidate: values, achievable errors, yardsticks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle.compare.groups import GroupKind
from cuassay.oracle.truth.index import ChosenPlaces


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedBias:
    """Whole-tensor projections of trusted runs, for accumulation over seeds.

    Sums of e * w / scale: of the draws, of the `known` runs (the reference as written, its float32
    lift) and of `members`, programs of a wider family; `norm2` is the sum of w**2 and `room` that
    of 4 u |truth| |w| / scale.
    `copies` says how many others share an element's error on average (`shared`).
    """

    draws: tuple[float, ...]
    known: tuple[float, ...]
    norm2: float
    room: float
    copies: float = 0.0
    members: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Yardsticks:
    """What trusted implementations achieve on the groups of all `kinds`, side by side.

    `sizes` says how many groups each kind has. Tensors are float64 (`judged` bool) with groups on
    the last axis; energies are in units of OutputTruth.unit squared. Rows of two are gain and
    bias: projections on truth / scale and on 1.

    count   elements judged
    energy  max(norm2(scale without reference), norm2(e_ref), norm2(e_lift32))
    signal  norm2(truth), in squared natural units
    base    (2, groups) energy and count, nowhere 0: what G and Z are measured in
    common  largest normalised score of any draw, at least 1: where one rounding moves a whole
            group (a row's variance), a group is one sample, not many
    norm    (2, groups) norm of the weights, nowhere 0
    room    (2, groups) for a systematic error of 4 u |truth|
    trust   (2, groups) the trusted runs' own spread
    judged  (4, groups) whether G, Z, gain and bias are: enough independent errors (equal truths
            share one: `shared`), and for G and gain none that dominates
    """

    kinds: tuple[GroupKind, ...]
    sizes: tuple[int, ...]
    count: Tensor
    energy: Tensor
    signal: Tensor
    base: Tensor
    common: Tensor
    norm: Tensor
    room: Tensor
    trust: Tensor
    judged: Tensor
    gain: TrustedBias
    bias: TrustedBias


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeLimits:
    """How many codes of a quantised output may differ from truth's, and by how many steps.

    `sizes` says how many groups each of `kinds` has. `allowed` is float64 (3, groups) on the CPU:
    codes that differ, those farther from zero, those nearer to it. `reach` is int16 of the
    output's shape, how many steps trusted runs are off; None where none is. `share` is the part
    of all codes that differs in the worst trusted run.
    """

    kinds: tuple[GroupKind, ...]
    sizes: tuple[int, ...]
    allowed: Tensor
    reach: Tensor | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputTruth:
    """Truth of one output.

    value           float64 (native dtype for integers and bools), of the output's shape
    scale           float32 achievable error per element, None where answers are exact.
                    0: only the exact answer passes. Negative: an ambiguous element (a
                    discontinuity flips it), judged by the worst-element rule with |scale| only
    yardsticks      of its groups; None where answers are exact
    alternative     int8 class of the reference as written where it differs from truth's, else
                    -1; None where it never differs
    ambiguous       bool, elements whose truth flips under the noise; None where there is none
    flips_allowed   exact outputs: elements outside `ambiguous` that may differ
    codes           quantised outputs: how many codes may be a step off, on which groups
    hits            hit count per row of axis 0, for index-addressed outputs
    choice          what its places along an axis obey however they tie; None for other outputs
    ill_conditioned why this output's numbers decide nothing, or empty; the others still do
    element_room    factor on the limit of single elements (`left_out`)
    least           the smallest scale where all of `value` is finite and every scale positive,
                    else 0: comparisons then look at every element's class
    settled         whether every number of truth and of every trusted run is finite
    """

    name: str
    dtype: DType
    value: Tensor
    scale: Tensor | None
    unit: float = 1.0
    yardsticks: Yardsticks | None = None
    alternative: Tensor | None = None
    ambiguous: Tensor | None = None
    ambiguous_share: float = 0.0
    flips_allowed: int = 0
    codes: CodeLimits | None = None
    hits: Tensor | None = None
    choice: ChosenPlaces | None = None
    ill_conditioned: str = ""
    element_room: float = 1.0
    least: float = 0.0
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
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
