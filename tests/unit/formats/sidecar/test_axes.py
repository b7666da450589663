"""Bounds of axes as a sidecar file states them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.sidecar.axes import axis_words, with_bounds, with_growth
from cuassay.formats.sidecar.schema import SidecarModel
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import ConstAxis, Problem, VarAxis
from tests.support.fake_trial import row_sum

_FILE = Path("/there/cuassay.toml")


def _problem() -> Problem:
    made = row_sum(declared=False).problem  # workloads at rows=16, cols=32 and 64
    return dataclasses.replace(made, axes=(*made.axes, ConstAxis(name="wide", value=8)))


def _bounded(**bounds: object) -> VarAxis:
    stated = SidecarModel.model_validate({"axes": {"cols": bounds}})
    found = {axis.name: axis for axis in with_bounds(_problem(), stated, file=_FILE).axes}["cols"]
    assert isinstance(found, VarAxis)
    return found


def test_both_ends_promise_every_size_between_them_and_one_end_does_not() -> None:
    whole = _bounded(min=8, max=128, multiple_of=8)
    assert (whole.minimum, whole.maximum, whole.multiple_of, whole.declared) == (8, 128, 8, True)
    assert whole.bounds_source == "sidecar cuassay.toml"
    assert not _bounded(max=128).declared


def test_listed_sizes_are_the_only_ones() -> None:
    listed = _bounded(sizes=[64, 32, 64])
    assert (listed.sizes, listed.minimum, listed.maximum) == ((32, 64), 32, 64)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"sizes": [32, 64], "min": 2}, "sizes stand alone"),
        ({"min": 65, "max": 71, "multiple_of": 8}, "no size lies in"),
        ({"min": 48}, "has cols = 32, outside 48 to any size"),
        ({"max": 63}, "has cols = 64"),
        ({"multiple_of": 48}, "outside 1 to any size, multiples of 48"),
        ({"sizes": [32]}, "has cols = 64, outside one of 32"),
    ],
)
def test_bounds_that_no_size_or_no_workload_fits_are_refused(
    bounds: dict[str, object], message: str
) -> None:
    with pytest.raises(ProblemError, match=message):
        _bounded(**bounds)


def test_an_axis_that_workloads_do_not_bind_has_no_bounds() -> None:
    for name, message in (("wide", "the axis is always 8"), ("colls", "axis 'colls'")):
        stated = SidecarModel.model_validate({"axes": {name: {"min": 2}}})
        with pytest.raises(ProblemError, match=message):
            with_bounds(_problem(), stated, file=_FILE)


def test_bounds_in_words() -> None:
    assert axis_words(VarAxis(name="n", minimum=2, maximum=64)) == "2 to 64"
    assert axis_words(VarAxis(name="n", multiple_of=8)) == "1 to any size, multiples of 8"
    assert axis_words(VarAxis(name="n", sizes=(1, 4))) == "one of 1, 4"


def _grown(**stated: object) -> Problem:
    return with_growth(_problem(), SidecarModel.model_validate(stated), where="f")


def test_what_to_judge_by_is_stated_and_the_rest_stays() -> None:
    made = _grown(growth_target={"cols": 1 << 20}, accumulation="float64", precision="strict")
    assert made.growth_target == {"cols": 1 << 20}
    assert made.accumulation is DType.FLOAT64
    assert made.precision is Precision.STRICT
    assert _grown() == _problem()


@pytest.mark.parametrize(
    "stated", [{"growth_target": {"x": 2}}, {"accumulation": "int8"}, {"precision": "exact"}]
)
def test_unknown_names_are_refused(stated: dict[str, object]) -> None:
    with pytest.raises(ProblemError, match="f: "):
        _grown(**stated)
