"""What a counterexample says, and when a finding shows more than rounding."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.judge.diagnose.minimise import convinces, counterexample_text
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.problem import Scalar, ScalarSpec
from cuassay.model.scenario import Call, Scenario
from cuassay.model.steps import Backward, Upstream
from tests.support.fake_trial import axis, problem, tensor

_FINDING = Finding(
    code="NUM001",
    title="t",
    message="m",
    classes=("N1",),
    finding_class=FindingClass.WRONG,
    severity=Severity.HIGH,
)


def _at(got: str, expected: str, share: float | None = 50.0) -> Finding:
    where = Where(output="y", index=(1, 2), got=got, expected=expected)
    return dataclasses.replace(_FINDING, where=where, measured=share, allowed=1.0)


@pytest.mark.parametrize(
    ("finding", "is_gross"),
    [
        (_at("2.0", "1.0"), True),
        (_at("1.005", "1.0"), False),  # half a percent is a matter of rounding
        (_at("1.02", "1.0"), True),
        (_at("2.0", "1.0", share=9.0), False),  # less than ten times what is allowed
        (_at("2.0", "1.0", share=None), True),
        (_at("2e-7", "1e-7"), False),  # too small to convince
        (_at("nan", "1.0"), True),
        (_at("nan", "nan"), False),
        (_at("inf", "-inf"), True),
        (_at("", ""), False),
    ],
)
def test_a_gross_error_is_seen_in_its_worst_element(finding: Finding, is_gross: bool) -> None:
    assert convinces(finding) is is_gross


def test_a_counterexample_names_sizes_values_and_the_worst_element() -> None:
    factor = ScalarSpec(name="factor", dtype=DType.FLOAT32, domain=Real(), default=2.0)
    made = problem(
        "scaled",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols"), factor],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 2, "cols": 3}],
    )
    case = Case(label="c", axes={"rows": 2, "cols": 3}, fills={"x": Fill(kind="ones")})
    values: dict[str, torch.Tensor | Scalar] = {"x": torch.ones(2, 3), "factor": 4.0}
    text = counterexample_text(made, case, _at("2.0", "1.0"), values)
    first, x, given, worst = text.splitlines()
    assert first == "# scaled with rows=2, cols=3"
    assert x.startswith("x = float32[rows, cols]: ")
    assert given == "factor = 4.0"
    assert worst == "# y[1, 2]: got 2, expected 1"
    bound = dataclasses.replace(case, scalars={"factor": 0.5})
    assert "factor = 0.5" in counterexample_text(made, bound, _FINDING, values)
    assert "got" not in counterexample_text(made, case, _FINDING, values)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Upstream.ONES, "ones"), (Upstream.SLICED, "normal numbers of seed 5, sliced")],
)
def test_a_backward_pass_says_its_upstream_gradient(kind: Upstream, words: str) -> None:
    made = problem(
        "p",
        axes=[axis("rows")],
        inputs=[tensor("x", "rows")],
        outputs=[tensor("y", "rows")],
        workloads=[{"rows": 2}],
    )
    case = Case(label="c", axes={"rows": 2})
    steps = (
        Call(slot="a", result="r"),
        Backward(slot="a", result="g", outputs="o", wanted=("x",), seed=5, upstream=kind),
    )
    finding = dataclasses.replace(
        _FINDING, scenario=Scenario(label="s", cases=(case,), steps=steps)
    )
    text = counterexample_text(made, case, finding, {"x": torch.ones(2)})
    assert text.splitlines()[-1] == f"# upstream gradient: {words}"
