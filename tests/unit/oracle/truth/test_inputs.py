"""What inputs say of the errors on them: 16 bits, repetitions, and subnormal numbers."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.truth.inputs import InputTraits, flushed, input_traits


def _traits(*inputs: object) -> InputTraits:
    return input_traits(inputs)  # type: ignore[arg-type]


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def test_inputs_without_numbers_say_nothing() -> None:
    nothing = InputTraits(low=False, repeats=False, tiny=False, subnormal=False)
    assert _traits(3, torch.tensor([1]), torch.empty(0)) == nothing
    assert _traits(_normal(8, 32)) == nothing
    assert _traits(torch.zeros(8, 32)) == nothing


def test_sixteen_bits_are_told() -> None:
    assert _traits(_normal(8, 32), _normal(8).half()).low


@pytest.mark.parametrize("axis", [0, 1])
def test_equal_and_nearly_equal_neighbours_are_told_along_either_axis(axis: int) -> None:
    line = _normal(1, 32) if axis == 0 else _normal(8, 1)
    assert _traits(line.expand(8, 32).contiguous()).repeats
    assert _traits(line * (1.0 + 1e-3 * _normal(8, 32))).repeats
    assert not _traits(line[:1, :1].expand(2, 3)).repeats  # too few elements


@pytest.mark.parametrize(
    ("number", "dtype", "tiny", "subnormal"),
    [
        (1e-20, torch.float32, True, False),
        (1e-37, torch.float32, True, True),
        (1e-37, torch.float64, True, False),
        (6e-8, torch.float16, False, False),
        (1e-37, torch.bfloat16, True, True),
    ],
)
def test_numbers_that_hardware_may_flush_are_told(
    number: float, dtype: torch.dtype, tiny: bool, subnormal: bool
) -> None:
    found = _traits(torch.tensor([1.0, number, 0.0]).double().to(dtype))
    assert (found.tiny, found.subnormal) == (tiny, subnormal)


def test_numbers_of_one_sign_are_flushed() -> None:
    x = torch.tensor([1e-38, -1e-38, 1.0])
    half = torch.tensor([6e-8], dtype=torch.float16)
    found, same, number = flushed([x, half, 3], sign=-1.0)
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [x[0], 0.0, 1.0]
    assert same is half
    assert number == 3
