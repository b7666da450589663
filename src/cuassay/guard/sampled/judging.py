"""Judge one call with the oracle: the candidate's outputs against truth, and the trusted ones.

What fails is judged again with other noise, and only counts if the trusted operator's own
outputs pass: a test that the trusted operator fails is reported for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.answers import compare_answer, is_known, spec_of
from cuassay.oracle.compare.outputs import Comparison, Statistic, compare
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
    wanted = [index for index, tensor in enumerate(trusted) if is_known(tensor)]
    specs = [spec_of(names[index], trusted[index]) for index in range(len(trusted))]
    first_truths = cache(lambda family: make_truth(specs, seed, family))
    other_truths = cache(lambda family: make_truth(specs, seed + 1, family))
    found: dict[int, Comparison] = {}
    for index in wanted:
        first = found[index] = compare_answer(got[index], index, first_truths, policy=policy)
        if first.passed:
            continue
        if not compare(trusted[index], first_truths(Precision.STRICT).outputs[index]).passed:
            why = "the trusted operator's own result fails as well"
            found[index] = _undecided(first.output, why)
            continue
        second = compare_answer(got[index], index, other_truths, policy=policy)
        found[index] = second if second.passed else first
    outputs = tuple(
        found.get(index) or _undecided(name, f"output '{name}' is of an unjudged dtype")
        for index, name in enumerate(names[: len(trusted)])
    )
    return Judgement(outputs=outputs, judge=by, truth=first_truths(Precision.STRICT).kind)


def worst_of(one: Comparison) -> Statistic:
    """Return the statistic by which an output fails most; `contract` for its shape or type."""
    return one.worst or Statistic(name="contract", value=0.0, limit=0.0, group=one.mismatch)


def _undecided(output: str, why: str) -> Comparison:
    return Comparison(output=output, passed=True, share=0.0, undecided=why)
