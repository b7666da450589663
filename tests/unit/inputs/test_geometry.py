"""Which sizes are legal."""

from __future__ import annotations

import dataclasses

from cuassay.inputs.geometry import legal
from cuassay.model.domain import Index
from cuassay.model.dtype import DType
from tests.support.fake_trial import axis, problem, tensor


def test_distinct_indices_need_as_many_rows() -> None:
    to = dataclasses.replace(
        tensor("to", "count"), dtype=DType.INT64, domain=Index(axis="rows", unique=True)
    )
    made = problem(
        "scatter",
        axes=[axis("count"), axis("rows")],
        inputs=[tensor("x", "rows"), to],
        outputs=[tensor("y", "rows")],
        workloads=[{"count": 4, "rows": 8}],
    )
    assert legal(made, {"count": 8, "rows": 8})
    assert not legal(made, {"count": 9, "rows": 8})
