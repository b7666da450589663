"""Pairs of 4-bit numbers are moved and changed as bytes."""

from __future__ import annotations

import pytest
import torch

from cuassay.inputs.materialise import materialise
from cuassay.inputs.packed import codes_of, comparable, is_packed
from cuassay.model.case import Case, Fill, FillValue
from cuassay.model.device import CPU
from cuassay.model.dtype import DType
from tests.support.fake_trial import axis, problem, tensor


def _drawn(**parameters: FillValue) -> torch.Tensor:
    made = problem(
        "p",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols", dtype=DType.FLOAT4_E2M1FN_X2)],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 6, "cols": 4}],
    )
    fill = Fill(kind="normal", parameters=parameters)
    case = Case(label="c", axes={"rows": 6, "cols": 4}, fills={"x": fill}, seed=5)
    value = materialise(made, case, device=CPU)["x"]
    assert isinstance(value, torch.Tensor)
    assert value.dtype is torch.float4_e2m1fn_x2
    return value.view(torch.uint8)


def test_codes_are_the_bytes_of_packed_pairs_in_the_order_of_the_elements() -> None:
    codes = torch.arange(12, dtype=torch.uint8).reshape(3, 4)
    packed = codes.view(torch.float4_e2m1fn_x2)
    assert is_packed(packed)
    assert torch.equal(codes_of(packed.t()), codes.t())
    assert codes_of(codes) is codes


def test_spoiled_places_hold_the_code_and_nothing_else_changes() -> None:
    plain, spoiled = _drawn(), _drawn(spoil=(1, 9), spoil_with=3.0)
    changed = (plain != spoiled).reshape(-1).nonzero().reshape(-1).tolist()
    assert set(changed) <= {1, 9}
    assert spoiled.reshape(-1)[[1, 9]].tolist() == [3, 3]


@pytest.mark.parametrize(
    "parameters",
    [{"slices": (2,), "slices_axis": 0, "slices_seed": 7}, {"roll_slices": 0}, {"permute": 3}],
)
def test_transforms_of_values_move_or_replace_whole_pairs(parameters: dict[str, FillValue]) -> None:
    plain, other = _drawn(), _drawn(**parameters)
    assert plain.shape == other.shape
    assert not torch.equal(plain, other)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu])
def test_floats_of_8_bits_are_compared_as_numbers_and_pairs_as_bytes(dtype: torch.dtype) -> None:
    codes = torch.tensor([0x38, 0x40, 0x41], dtype=torch.uint8)
    assert torch.equal(comparable(codes.view(dtype)), codes.view(dtype).float())
    assert torch.equal(comparable(codes.view(torch.float4_e2m1fn_x2)), codes)
    assert comparable(codes) is codes


def test_one_input_of_packed_pairs_may_be_made_of_another() -> None:
    made = problem(
        "p",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor(name, "rows", "cols", dtype=DType.FLOAT4_E2M1FN_X2) for name in "xy"],
        outputs=[tensor("z", "rows", "cols")],
        workloads=[{"rows": 6, "cols": 4}],
    )
    fills = {"y": Fill(kind="normal", parameters={"like": "x", "like_step": 0})}
    case = Case(label="c", axes={"rows": 6, "cols": 4}, fills=fills, seed=5)
    values = materialise(made, case, device=CPU)
    x, y = values["x"], values["y"]
    assert isinstance(x, torch.Tensor)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
