"""What a fill is asked for: parameters of the wrong kind are refused in words."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import ProblemError
from cuassay.inputs.request import Request
from cuassay.model.case import FillValue
from cuassay.model.device import CPU
from tests.support.fake_trial import tensor


def _request(**parameters: FillValue) -> Request:
    generator = torch.Generator().manual_seed(1)
    return Request(
        spec=tensor("x", "n"), shape=(2, 3), parameters=parameters, generator=generator, device=CPU,
        work=torch.float64,
    )  # fmt: skip


def test_numbers_have_defaults_and_words_are_no_numbers() -> None:
    request = _request(scale=3, on=True, kind="wide", list=(1.0,))
    assert (request.number("scale", 1.0), request.number("mean", 0.5)) == (3.0, 0.5)
    for name in ("on", "kind", "list"):
        with pytest.raises(ProblemError, match=f"parameter '{name}' of input 'x'"):
            request.number(name, 1.0)


@pytest.mark.parametrize("given", [(), 3.0, "all"])
def test_listed_values_are_a_tuple_that_is_not_empty(given: FillValue) -> None:
    with pytest.raises(ProblemError, match="non-empty"):
        _request(values=given).values()
    assert _request(values=(1, 2.5)).values() == (1.0, 2.5)


def test_draws_have_the_shape_and_the_working_precision() -> None:
    request = _request()
    assert request.count == 6
    for drawn in (request.normal(), request.uniform(), request.constant(2.0)):
        assert (drawn.shape, drawn.dtype) == ((2, 3), torch.float64)
    assert request.normal((4,)).shape == (4,)
    assert sorted(request.permutation(5).tolist()) == list(range(5))
    assert int(request.integers(4, (100,)).max()) == 3
