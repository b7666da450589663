"""NUM004: values as large as the reference takes them."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Needs, Split
from cuassay.checks.numeric.common import comparison_finding, one_by_one
from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.checks.plain_first import with_scalars
from cuassay.checks.state.answers import reads_of
from cuassay.errors import NothingToCheckError
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.scenario import Scenario

_LIMIT, _LIMIT_BEYOND = 2.0**14, 2.0**40  # of what the reference computes, beyond float16 too
_LIMIT_OPPOSED = 2.0**20  # float32 has steps of 1/8 there, which exp tells apart
# Exponents of two. Inputs that exceed float16 themselves are large enough: the larger, the more
# often a result is ill-conditioned.
_LEAST, _MOST, _MOST_BEYOND = 3, 14, 18
_HALF = 2.0**16  # where float16 ends
_CONSTANT = 2.0**24  # what a reference makes so large at usual inputs is a mask, and no result


class Tries(enum.StrEnum):
    """What a scenario makes large."""

    SIDES = "large weights and biases"
    MAINS = "large main inputs"
    ALL = "values beyond float16"


class Num004(Check):
    """Values as large as the reference takes them

    What it does
        Multiplies inputs by a power of two: those of the fewest dimensions (weights, biases) and
        the others apart, as far as nothing that the reference computes on its way exceeds 2^14;
        then all of them by up to 2^18, where float16 has ended and bfloat16 and float32 have
        not. A last case has the first input positive and the others negative.

    Why it matters
        A weight of 300 after a normalisation makes outputs of 1000. A kernel that clamps to +-64
        "for stability", or saturates a packed intermediate, is right on every standard normal
        input. float16 inside of a float32 operator overflows where nobody expects it. A maximum
        that starts at -50000 is wrong where all scores of a row lie below.

    How it decides
        A plain call comes first and must be right. Each output is then judged as NUM001 judges.
        Where the reference stays below 2^14 a wrong answer rejects: every floating type of 16
        bits has room to spare. Beyond float16 it is a condition of use, unless the problem
        declares that inputs may be so large.

    Can it be wrong?
        How far inputs can grow is found by running the reference, which bounds what it computes
        as written. A kernel that squares what the reference does not has 2^28 to deal with, which
        float32 and bfloat16 hold. Inputs with declared bounds keep to them.

    Example
        "with weight 512 times as large: y[3, 17] is 64.0, expected 1113.2".

    Options
        --require magnitudes makes the condition binding.
    """

    code = "NUM004"
    title = "Values as large as the reference takes them"
    classes = ("N6", "N10", "O3")
    ranks = True
    needs = Needs(split=Split.ANY_SIDE)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a scenario for each group of inputs that can be made larger.

        Raises NothingToCheckError where none can.
        """
        nothing = True
        for small in trial.cases("small")[:1]:
            base = with_scalars(trial, small)
            plain = trial.magnitudes(base)
            for tries in Tries:
                opposed = [False, True] if tries is Tries.ALL else [False]
                made = (_largest(trial, base, plain, tries, opposed=one) for one in opposed)
                large = [case for case in made if case is not None]
                if large:
                    nothing = False
                    cases = (base, *large)
                    steps = one_by_one(range(len(cases)))
                    yield Scenario(label=tries, cases=cases, steps=steps)
        if nothing:
            raise NothingToCheckError("no input can be made larger")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame what is right for usual values and wrong for large ones."""
        reads = reads_of(scenario, run)
        if len(reads) < len(scenario.cases) or answers.first_wrong(reads[0]):
            return
        for large, read in zip(scenario.cases[1:], reads[1:], strict=True):
            lead = f"right before, and {_grown(large)}"
            wrong = answers.wrong(read)
            for comparison in wrong:
                found = comparison_finding(self, trial, scenario, large, comparison, lead=lead)
                if scenario.label == Tries.ALL:
                    found = found.as_condition(
                        "magnitudes: right up to 2^14, wrong where values exceed float16"
                    )
                yield found
            if wrong:
                return


def _largest(
    trial: Trial, base: Case, plain: Sequence[float], tries: Tries, *, opposed: bool
) -> Case | None:
    """Return the base with inputs as large as the reference takes them, None where none grow.

    If `opposed`, the first of them is positive and the others are negative, so that what multiplies
    them and adds up is large and negative.
    """
    beyond = tries is Tries.ALL
    specs = _grown_by(trial.problem, tries)
    all_specs = (*tensor_inputs(trial.problem), *trial.problem.outputs)
    free = all(isinstance(one.domain, Real) and one.domain.low is None for one in specs)
    if opposed and (len(specs) < 2 or base.generator or not free):
        return None
    if not specs or (beyond and any(spec.dtype is DType.FLOAT16 for spec in all_specs)):
        return None
    limit = _LIMIT_OPPOSED if opposed else _LIMIT_BEYOND if beyond else _LIMIT
    low, high = _LEAST - 1, _MOST_BEYOND if beyond else _MOST
    largest, reached = None, 0.0
    while low < high:  # the largest exponent that fits, by halving
        exponent = (low + high + 1) // 2
        fills = {
            spec.name: with_parameters(
                Fill(kind="same_sign") if opposed else own_fill(base, spec),
                {"scale_by": 2.0**exponent * (-1.0 if opposed and spec is not specs[0] else 1.0)},
            )
            for spec in specs
        }
        case = dataclasses.replace(base, label=tries, fills={**base.fills, **fills})
        grown = _reached(plain, trial.magnitudes(case))
        if grown <= limit:
            low, largest, reached = exponent, case, grown
        else:
            high = exponent - 1
    wanted = 2.0 * _HALF if beyond else 2.0 * _reached(plain, plain)
    return largest if reached >= wanted else None


def _grown_by(problem: Problem, tries: Tries) -> list[TensorSpec]:
    """Return the inputs that a scenario makes larger: those that no bound keeps small."""
    from cuassay.inputs.fills import family
    from cuassay.inputs.regimes import main_rank

    rank = main_rank(problem)
    free = [
        spec
        for spec in tensor_inputs(problem)
        if family(spec) == "real"
        and spec.dtype.itemsize > 1
        and isinstance(spec.domain, Real)
        and spec.domain.high is None
        and (spec.domain.low is None or spec.domain.low >= 0.0)
    ]
    match tries:
        case Tries.SIDES:
            return [spec for spec in free if len(spec.shape) < rank]
        case Tries.MAINS:
            return [spec for spec in free if len(spec.shape) >= rank]
        case Tries.ALL:
            return free


def _reached(plain: Sequence[float], grown: Sequence[float]) -> float:
    """Return the largest number on the way, infinity where one overflowed or the way is another.

    What is huge or infinite at usual inputs already is a constant of the reference: a mask.
    """
    if len(plain) != len(grown):
        return math.inf
    pairs = [(p, g) for p, g in zip(plain, grown, strict=True) if p < _CONSTANT]
    return max((g if math.isfinite(g) else math.inf for _, g in pairs), default=0.0)


def _grown(case: Case) -> str:
    """Return `wrong with weight, bias 512 times as large`."""
    scales = {
        name: fill.parameters["scale_by"]
        for name, fill in case.fills.items()
        if "scale_by" in fill.parameters
    }
    names = ", ".join(scales)
    factors = [value for value in scales.values() if isinstance(value, float)]
    signs = ", the first positive and the others negative" if min(factors) < 0 else ""
    return f"wrong with {names} {factors[0]:,.0f} times as large{signs}"
