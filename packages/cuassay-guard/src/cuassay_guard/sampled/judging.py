"""Judge one call with the oracle: the candidate's outputs against truth, and the trusted ones.

What fails is judged again with other noise, and only counts if the trusted operator's own
outputs pass: a test that the trusted operator fails is reported for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from torch import Tensor

from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.answers import is_known, judge_answer, spec_of, undecided
from cuassay.oracle.compare.outputs import Comparison, Statistic
from cuassay.oracle.truth.types import Truth

MakeTruth = Callable[[Sequence[TensorSpec], int, Precision], Truth]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one call; `judge` is oracle or local, `truth` float64 or float32."""

    outputs: tuple[Comparison, ...]
    judge: str
    truth: str

    @property
    def failed(self) -> Comparison | None:
        """The output that fails by most, if one does."""
        wrong = [one for one in self.outputs if not one.passed]
        return max(wrong, key=lambda one: one.share, default=None)

    @property
    def undecided(self) -> str:
        """Why at least one output was not decided, or ''."""
        return next((one.undecided for one in self.outputs if one.undecided), "")


def judge_call(
    make_truth: MakeTruth,
    got: Sequence[Tensor],
    trusted: Sequence[Tensor],
    names: Sequence[str],
    *,
    seed: int,
    by: str,
    policy: Precision,
) -> Judgement:
    """Return the judgement of one call. `got` and `trusted` agree in shapes and dtypes.

    An output passes by any family of trusted implementations that `policy` accepts. Raises what
    `make_truth` raises.
    """
    specs = [spec_of(name, tensor) for name, tensor in zip(names, trusted, strict=False)]

    @cache
    def truth(family: Precision, drawn: int) -> Truth:
        return make_truth(specs, drawn, family)

    truths = [partial(truth, drawn=drawn) for drawn in (seed, seed + 1)]
    outputs = tuple(
        judge_answer(got[index], index, own, truths, policy=policy)
        if is_known(own)
        else undecided(names[index], f"output '{names[index]}' is of an unjudged dtype")
        for index, own in enumerate(trusted)
    )
    return Judgement(outputs=outputs, judge=by, truth=truths[0](Precision.STRICT).kind)


def worst_of(one: Comparison) -> Statistic:
    """Return the statistic by which an output fails most; `contract` for its shape or type."""
    return one.worst or Statistic(name="contract", value=0.0, limit=0.0, group=one.mismatch)
