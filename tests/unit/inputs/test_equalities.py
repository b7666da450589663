"""Cases whose elements and sizes equal a scalar argument."""

from __future__ import annotations

import dataclasses

from cuassay.inputs.budget import budget_for
from cuassay.inputs.equalities import at_scalars
from cuassay.inputs.planner import Planner
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.domain import Domain, IntegerRange, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, ScalarSpec
from cuassay.model.profile import Profile
from tests.support.fake_trial import row_sum


def _cases(domain: Domain, default: Scalar, dtype: DType = DType.FLOAT32) -> list[Case]:
    made = row_sum().problem
    scalar = ScalarSpec(name="limit", dtype=dtype, domain=domain, default=default)
    made = dataclasses.replace(made, inputs=(*made.inputs, scalar))
    budget = budget_for(Profile.QUICK, device=CPU)
    return list(at_scalars(Planner(problem=made, budget=budget, root_seed=1)))


def test_elements_equal_the_scalar_of_few_digits_with_either_sign() -> None:
    (case,) = _cases(Real(), 0.3)
    # Three bits of 0.3: every floating type has the number, so that equality can happen.
    assert case.scalars["limit"] == 0.3125
    assert case.fills["x"].kind == "among"
    assert case.fills["x"].parameters["values"] == (0.3125, -0.3125)


def test_a_shortened_scalar_beyond_its_bounds_and_zero_give_no_case() -> None:
    assert _cases(Real(low=0.29, high=0.31), 0.3) == []
    assert _cases(Real(), 0.0) == []


def test_an_integer_takes_the_sizes_of_axes_and_one_less_where_that_is_legal() -> None:
    cases = _cases(IntegerRange(low=1, high=512), 5, DType.INT64)
    assert [case.label for case in cases] == [
        "limit equals rows", "limit is below rows", "limit equals cols", "limit is below cols",
    ]  # fmt: skip
    for case, axis, less in zip(cases, ("rows", "rows", "cols", "cols"), (0, 1, 0, 1), strict=True):
        assert case.scalars["limit"] == case.axes[axis] - less
    assert _cases(IntegerRange(low=5, high=6), 5, DType.INT64) == []
