"""Domains as a sidecar file states them: read by kind, held against the problem's own values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.sidecar.domains import with_domains
from cuassay.formats.sidecar.schema import SidecarModel
from cuassay.model.domain import Index, Positive, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, ScalarSource, ScalarSpec, TensorSpec, Workload
from tests.support.fake_trial import axis, problem, tensor


def _problem() -> Problem:
    ids = TensorSpec(name="ids", dtype=DType.INT64, shape=("count",), domain=Index(axis="rows"))
    scale = ScalarSpec(name="scale", dtype=DType.FLOAT32, domain=Real(), default=2.0)
    number = ScalarSpec(name="number", dtype=DType.INT64, domain=Real())
    made = problem(
        "gather",
        axes=[axis("rows"), axis("count")],
        inputs=[tensor("x", "rows"), ids, scale, number],
        outputs=[tensor("y", "count"), tensor("z", "rows")],
        workloads=[],
    )
    workload = Workload(
        id="w0", axes={"rows": 8, "count": 12}, sources={"number": ScalarSource(value=12)}
    )
    return dataclasses.replace(made, workloads=(workload,), index_inputs={"ids": ("z",)})


def _stated(name: str, **table: object) -> Problem:
    stated = SidecarModel.model_validate({"domains": {name: table}})
    return with_domains(_problem(), stated, file=Path("/there/cuassay.toml"))


def test_a_domain_is_stated_and_says_who_stated_it() -> None:
    x = _stated("x", kind="positive", high=9.0, stale=True).input("x")
    assert isinstance(x, TensorSpec)
    assert x.domain == Positive(high=9.0)
    assert x.domain_source == "sidecar cuassay.toml"
    assert x.stale


def test_outputs_that_an_index_addresses_follow_its_axis() -> None:
    assert _stated("ids", kind="index", axis="rows").index_inputs == {"ids": ("z",)}
    assert _stated("ids", kind="index", axis="count").index_inputs == {"ids": ("y",)}
    assert _stated("ids", kind="integer_range", low=0, high=7).index_inputs == {}


def test_a_scalar_may_repeat_a_size_where_the_workloads_agree() -> None:
    assert _stated("number", kind="size_of", axis="count").input("number").domain == SizeOf(
        axis="count"
    )
    with pytest.raises(ProblemError, match="has number = 12, where rows is 8"):
        _stated("number", kind="size_of", axis="rows")


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("xx", {"kind": "real"}, "input 'xx'"),
        ("x", {}, "kind is missing"),
        ("x", {"kind": 3}, "kind is 3"),
        ("x", {"kind": "rael"}, "kind 'rael'"),
        ("x", {"kind": "real", "stale": "yes"}, "stale is 'yes'"),
        ("x", {"kind": "real", "max": 3.0}, "called 'high'"),
        ("x", {"kind": "opaque"}, "has none; state which values are legal"),
        ("ids", {"kind": "index", "axis": "depth"}, "depth"),
        ("ids", {"kind": "index", "axis": "rows", "unique": True}, "needs 12 distinct indices"),
        ("scale", {"kind": "real", "high": 1.0}, "the problem's default has scale = 2.0"),
        ("number", {"kind": "choice", "values": [1, 2]}, "workload 'w0' has number = 12"),
    ],
)
def test_a_domain_that_the_problem_contradicts_is_refused(
    name: str, table: dict[str, object], message: str
) -> None:
    with pytest.raises(ProblemError, match=message):
        _stated(name, **table)
