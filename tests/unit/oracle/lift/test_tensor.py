"""Which dtype a lifted tensor carries, and which one it shows."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.lift.run import lift
from cuassay.oracle.lift.tensor import lifted_dtype, nominal_of, same_kind


@pytest.mark.parametrize(
    ("nominal", "to", "expected"),
    [
        (torch.bfloat16, torch.float64, torch.float64),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float64, torch.float32, torch.float64),  # what was wide stays wide
        (torch.complex32, torch.float64, torch.complex128),
        (torch.complex64, torch.float32, torch.complex64),
        (torch.complex128, torch.float32, torch.complex128),
        (torch.int32, torch.float64, torch.int32),
        (torch.bool, torch.float64, torch.bool),
        (torch.float8_e4m3fn, torch.float64, torch.float8_e4m3fn),
    ],
)
def test_floats_are_lifted_and_codes_are_not(
    nominal: torch.dtype, to: torch.dtype, expected: torch.dtype
) -> None:
    assert lifted_dtype(nominal, to) is expected


def test_a_nominal_dtype_is_real_or_complex_as_its_payload_is() -> None:
    assert same_kind(torch.float32, torch.complex128) is torch.complex64
    assert same_kind(torch.complex64, torch.float64) is torch.float32
    assert same_kind(torch.float16, torch.float64) is torch.float16
    assert same_kind(torch.int8, torch.float64) is torch.int8


def test_a_lifted_reference_sees_its_own_dtype_and_computes_in_a_wider_one() -> None:
    seen: list[torch.dtype | None] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        third = x / 3
        seen.extend((third.dtype, nominal_of(third)))
        return third

    (found,) = lift(reference, [torch.ones(2, dtype=torch.bfloat16)])
    assert seen == [torch.bfloat16, torch.bfloat16]
    assert torch.equal(found, torch.full((2,), 1 / 3, dtype=torch.float64))
    assert nominal_of(found) is torch.bfloat16


def test_a_tensor_that_the_lift_did_not_make_has_no_nominal_dtype_unless_it_is_no_float() -> None:
    assert nominal_of(torch.zeros(1)) is None
    assert nominal_of(torch.zeros(1, dtype=torch.int64)) is torch.int64


def test_a_lifted_tensor_is_printed_as_its_value() -> None:
    said: list[str] = []

    def reference(x: torch.Tensor) -> torch.Tensor:
        said.append(f"{x.sum():.2f} {x}")
        return x

    lift(reference, [torch.ones(2, dtype=torch.float16)])
    assert said[0].startswith("2.00 tensor([1., 1.]")
