"""Facts of inputs as a sidecar file states them: their values come from the generator alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.sidecar.facts import with_facts
from cuassay.formats.sidecar.schema import SidecarModel
from cuassay.model.domain import Opaque
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.stated import FactKind, StatedFact
from tests.support.fake_trial import scaled_add


def _stated(
    facts: dict[str, object], *, generator: str | None = "make", **tables: object
) -> Problem:
    made = scaled_add().problem
    reference = dataclasses.replace(made.reference, generator=generator)
    stated = SidecarModel.model_validate({"facts": facts, **tables})
    made = dataclasses.replace(made, reference=reference)
    return with_facts(made, stated, file=Path("/there/cuassay.toml"))


def test_each_fact_names_its_input_and_the_input_is_left_to_the_generator() -> None:
    made = _stated({"x": {"equal_along": ["rows"], "sorted": True}})
    assert made.stated == (
        StatedFact(input="x", kind=FactKind.ALONG, axis="rows", where="cuassay.toml"),
        StatedFact(input="x", kind=FactKind.SORTED, where="cuassay.toml"),
    )
    x, bias = made.input("x"), made.input("bias")
    assert isinstance(x, TensorSpec)
    assert isinstance(x.domain, Opaque)
    assert not isinstance(bias.domain, Opaque)


def test_every_kind_of_fact_can_be_stated() -> None:
    kinds = [kind for kind in FactKind if kind is not FactKind.ALONG]
    made = _stated({"x": {kind.value: True for kind in kinds}})
    assert [fact.kind for fact in made.stated] == kinds


@pytest.mark.parametrize(
    ("facts", "changes", "message"),
    [
        ({"xx": {"sorted": True}}, {}, "input 'xx'"),
        ({"gain": {"constant": True}}, {}, "is a scalar"),
        ({"x": {"sorted": True}}, {"generator": None}, "has no generator"),
        ({"x": {"sorted": True}}, {"domains": {"x": {"kind": "real"}}}, "states domains.x"),
        ({"bias": {"equal_along": ["rows"]}}, {}, "axis 'rows'"),
    ],
)
def test_a_fact_that_nothing_can_keep_is_refused(
    facts: dict[str, object], changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ProblemError, match=message):
        _stated(facts, **changes)  # type: ignore[arg-type]
