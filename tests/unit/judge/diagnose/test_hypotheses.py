"""Experiments confirm the cause that makes the kernel, and refute what it only looks like."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import pytest

from cuassay.diagnosis.clues import TESTED
from cuassay.diagnosis.growth import fitted_exponent
from cuassay.judge.diagnose.hypotheses import (
    HYPOTHESES,
    Conclusion,
    Prediction,
    Reply,
    Ruling,
    Subject,
    after_other_calls,
)
from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Cause
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, Reference, TensorSpec, VarAxis, Workload
from cuassay.model.scenario import ReadResult, Scenario

# Whether a kernel's answer to a case is wrong, and by how much.
Kernel = Callable[[Case], float]


def _problem() -> Problem:
    from pathlib import Path

    tensor = TensorSpec(name="x", dtype=DType.FLOAT32, shape=("rows", "cols"), domain=Real())
    return Problem(
        name="op",
        axes=(
            VarAxis(name="rows", minimum=1, maximum=4096),
            VarAxis(name="cols", minimum=1, maximum=4096),
        ),
        inputs=(tensor,),
        outputs=(dataclasses.replace(tensor, name="y"),),
        reference=Reference(path=Path("reference.py"), function="op"),
        workloads=(Workload(id="w", axes={"rows": 16, "cols": 256}),),
        origin="native",
    )


def _case(rows: int, cols: int, **parameters: float) -> Case:
    fills = {"x": Fill(kind="normal", parameters=parameters)}
    return Case(label="found", axes={"rows": rows, "cols": cols}, fills=fills, seed=1)


def _ruled(cause: Cause, kernel: Kernel, subject: Subject) -> Conclusion:
    """Run an experiment as a judge would, on a kernel that is a function of the case."""
    hypothesis = HYPOTHESES[cause]
    assert isinstance(hypothesis, Prediction)
    experiment = hypothesis.experiment(subject)
    said = Conclusion(ruling=Ruling.OPEN)
    while experiment is not None:
        replies = {one.name: _reply(one.scenario, kernel) for one in experiment.questions}
        said = experiment.conclude(replies)
        experiment = said.then
    return said


def _reply(scenario: Scenario, kernel: Kernel) -> Reply:
    count = sum(isinstance(step, ReadResult) for step in scenario.steps)
    errors = tuple(kernel(case) for case in scenario.cases[:count])
    return Reply(right=tuple(error < 1e-3 for error in errors), errors=errors)


def _subject(case: Case, **fields: object) -> Subject:
    usual = {"ordinary": _case(4, 64), "grows": ("cols",)}
    return Subject(problem=_problem(), wrong=case, **(usual | fields))  # type: ignore[arg-type]


def _scale(case: Case) -> float:
    parameters = case.fills["x"].parameters
    return float(parameters.get("scale", 1.0)) * float(parameters.get("scale_by", 1.0))  # type: ignore[arg-type]


def _tail(case: Case) -> float:
    return 0.4 if case.axes["cols"] % 64 else 0.0


def _from_33_rows(case: Case) -> float:
    return 0.4 if case.axes["rows"] >= 33 else 0.0


def _one_size(case: Case) -> float:
    return 0.4 if case.axes["cols"] == 1024 else 0.0


def _fades(case: Case) -> float:  # a divisor n - 1
    return 0.5 / case.axes["cols"]


def _small(case: Case) -> float:  # an epsilon
    return 0.4 if _scale(case) < 0.1 else 0.0


def _rescaled(case: Case) -> float:  # beyond a tile, where its maximum is the largest
    return 0.4 if case.axes["cols"] > 32 and (case.axes["cols"] > 64 or case.seed % 3) else 0.0


def _one_count(case: Case) -> float:  # a divisor that is right by chance
    return 0.4 if case.axes["cols"] != 128 else 0.0


def _everywhere(case: Case) -> float:
    return 0.3


def _lost_sum(case: Case) -> float:
    return 1e-3 * math.sqrt(case.axes["cols"])


@pytest.mark.parametrize(
    ("cause", "kernel", "case", "words"),
    [
        (Cause.TAIL, _tail, _case(5, 100), "wrong at cols=100 and right at cols=128"),
        (Cause.SIZES, _from_33_rows, _case(77, 64), "wrong at rows=33 and right at rows=32"),
        (Cause.SIZES, _one_size, _case(4, 1024), "wrong at cols=1024 and right at cols=1025"),
        (Cause.SIZES, _rescaled, _case(4, 256), "wrong at cols=33 and right at cols=32"),
        (
            Cause.MAGNITUDE,
            _small,
            _case(4, 64, scale=1e-3),
            "wrong for these values, right for the same values times 1024",
        ),
        (
            Cause.LOW_ACCUMULATION,
            _lost_sum,
            _case(4, 64),
            "the error grows as cols^0.5",
        ),
    ],
)
def test_the_cause_that_makes_a_kernel_wrong_is_confirmed(
    cause: Cause, kernel: Kernel, case: Case, words: str
) -> None:
    said = _ruled(cause, kernel, _subject(case))
    assert said.ruling is Ruling.CONFIRMED
    assert said.words == words


@pytest.mark.parametrize(
    ("cause", "kernel", "case"),
    [
        (Cause.TAIL, _small, _case(13, 100, scale=1e-3)),  # at the listed sizes too
        (Cause.TAIL, _one_size, _case(13, 1024)),
        (Cause.TAIL, _one_count, _case(13, 100)),
        (Cause.TAIL, _everywhere, _case(5, 100)),
        (Cause.TAIL, _from_33_rows, _case(77, 64)),
        (Cause.SIZES, _fades, _case(4, 3)),
        (Cause.SIZES, _everywhere, _case(4, 64)),
        (Cause.MAGNITUDE, _everywhere, _case(4, 64)),
        (Cause.MAGNITUDE, _tail, _case(4, 65)),
        (Cause.LOW_ACCUMULATION, _everywhere, _case(4, 64)),
        (
            Cause.LOW_ACCUMULATION,
            lambda case: 1e-7 if case.axes["cols"] < 500 else 0.6,
            _case(4, 64),
        ),
        (Cause.SPECIAL_CASE, _everywhere, _case(4, 64)),
        (Cause.OUT_OF_RANGE, lambda case: math.inf, _case(4, 64)),
    ],
)
def test_a_cause_that_it_only_looks_like_is_refuted(
    cause: Cause, kernel: Kernel, case: Case
) -> None:
    assert _ruled(cause, kernel, _subject(case)).ruling is not Ruling.CONFIRMED


def _asked_once(cause: Cause, reply: Reply, subject: Subject) -> Ruling:
    hypothesis = HYPOTHESES[cause]
    assert isinstance(hypothesis, Prediction)
    experiment = hypothesis.experiment(subject)
    assert experiment is not None
    return experiment.conclude({one.name: reply for one in experiment.questions}).ruling


@pytest.mark.parametrize(
    ("cause", "reply", "ruling"),
    [
        (Cause.STALE_ANSWER, Reply(right=(True,), errors=(0.0,)), Ruling.CONFIRMED),
        (Cause.CALL_HISTORY, Reply(right=(False,), errors=(0.3,)), Ruling.REFUTED),
        (Cause.CALL_HISTORY, Reply(right=(None,), errors=(0.3,)), Ruling.OPEN),
        (Cause.FIRST_CALL, Reply(right=(False, True), errors=(0.3, 0.0)), Ruling.CONFIRMED),
        (Cause.FIRST_CALL, Reply(right=(False, False), errors=(0.3, 0.3)), Ruling.REFUTED),
        (Cause.OUTPUT_REUSED, Reply(right=(True,), errors=(0.0,)), Ruling.REFUTED),
        (
            Cause.INPUT_IGNORED,
            Reply(right=(True, False), errors=(0.0, 1.0), same=True),
            Ruling.CONFIRMED,
        ),
        (Cause.INPUT_IGNORED, Reply(right=(True, False), errors=(0.0, 1.0)), Ruling.REFUTED),
    ],
)
def test_what_calls_in_one_process_show(cause: Cause, reply: Reply, ruling: Ruling) -> None:
    case = _case(4, 64)
    moved = dataclasses.replace(case, seed=2)
    assert (
        _asked_once(cause, reply, _subject(case, calls=(case,), moved=((case, moved),))) is ruling
    )


def test_a_result_that_changes_with_the_inputs_alone_shares_them() -> None:
    hypothesis = HYPOTHESES[Cause.OUTPUT_REUSED]
    assert isinstance(hypothesis, Prediction)
    experiment = hypothesis.experiment(_subject(_case(4, 64)))
    assert experiment is not None
    kept = Reply(right=(True,), errors=(0.0,))
    changed = dataclasses.replace(kept, kept=False)
    replies: Mapping[str, Reply] = {"another call": changed, "other inputs": kept}
    assert experiment.conclude(replies).cause is None
    assert experiment.conclude(replies).ruling is Ruling.CONFIRMED
    both = experiment.conclude({"another call": changed, "other inputs": changed})
    assert both.cause is Cause.OUTPUT_SHARES_INPUT
    replies = {"another call": kept, "other inputs": kept, "equal call": changed}
    assert experiment.conclude(replies).ruling is Ruling.CONFIRMED
    replies = {"another call": kept, "other inputs": kept}
    assert experiment.conclude(replies).ruling is Ruling.OPEN


@pytest.mark.parametrize(
    ("first", "later", "ruling"),
    [
        (True, False, Ruling.CONFIRMED),
        (True, True, Ruling.REFUTED),
        (False, False, Ruling.OPEN),  # wrong alone: no earlier call is at fault
    ],
)
def test_earlier_calls_are_at_fault_where_the_first_is_right(
    first: bool, later: bool, ruling: Ruling
) -> None:
    experiment = after_other_calls(_subject(_case(4, 64)))
    assert experiment is not None
    replies = {
        "first": Reply(right=(first,), errors=(0.0,)),
        "later": Reply(right=(True, True, True, later), errors=(0.0,) * 4),
    }
    assert experiment.conclude(replies).ruling is ruling


def test_every_cause_has_a_hypothesis() -> None:
    assert set(HYPOTHESES) == set(Cause)
    for hypothesis in HYPOTHESES.values():
        assert hypothesis.prediction
    tested = {c for c, hypothesis in HYPOTHESES.items() if isinstance(hypothesis, Prediction)}
    assert tested == TESTED


@pytest.mark.parametrize(
    ("points", "exponent"),
    [
        ([(64.0, 1e-3), (256.0, 4e-3), (1024.0, 1.6e-2)], 1.0),
        ([(64.0, 1e-3), (256.0, 1e-3), (1024.0, 1e-3)], 0.0),
    ],
)
def test_the_exponent_of_exact_powers(
    points: Sequence[tuple[float, float]], exponent: float
) -> None:
    found, spread = fitted_exponent(points)
    assert found == pytest.approx(exponent)
    assert spread == pytest.approx(0.0, abs=1e-6)
