"""Transforms of fills: exact, replayable, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from cuassay.errors import ProblemError
from cuassay.inputs import transforms
from cuassay.inputs.materialise import materialise
from cuassay.model.case import Case, Fill, FillValue
from cuassay.model.device import CPU
from cuassay.model.domain import Opaque
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from tests.support.fake_trial import FakeTrial, axis, problem, tensor

_DTYPES = [DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT8_E4M3FN]


def _x(
    dtype: DType = DType.FLOAT32, *, rows: int = 6, kind: str = "normal", **parameters: FillValue
) -> torch.Tensor:
    return _filled(Fill(kind=kind, parameters=parameters), dtype=dtype, rows=rows)


def _filled(fill: Fill, *, dtype: DType = DType.FLOAT32, rows: int = 6) -> torch.Tensor:
    made = problem(
        "p",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols", dtype=dtype)],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 6, "cols": 4}],
    )
    case = Case(label="c", axes={"rows": rows, "cols": 4}, fills={"x": fill}, seed=5)
    value = materialise(made, case, device=CPU)["x"]
    assert isinstance(value, torch.Tensor)
    return value


@pytest.mark.parametrize("dtype", _DTYPES)
def test_taken_rows_are_those_of_the_base(dtype: DType) -> None:
    base, take = _x(dtype).float(), (5, 0, 2)
    few = _x(dtype, rows=3, take=take, take_axis="rows", take_of=6).float()
    assert torch.equal(few, base[[5, 0, 2]])
    many = _x(dtype, rows=7, take=take, take_axis="rows", take_of=6).float()
    assert torch.equal(many, base[[5, 0, 2, 5, 0, 2, 5]])


@pytest.mark.parametrize("dtype", _DTYPES)
def test_parts_add_up_exactly(dtype: DType) -> None:
    first, second = (_x(dtype, part=part, part_seed=9).float() for part in (0, 1))
    assert torch.equal(first + second, _x(dtype).float())
    assert bool((first * second == 0).all())
    assert bool(first.any())
    assert bool(second.any())


@pytest.mark.parametrize("dtype", _DTYPES)
def test_scaling_by_a_power_of_two_is_exact(dtype: DType) -> None:
    assert torch.equal(_x(dtype, scale_by=2.0).float(), _x(dtype).float() * 2.0)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_two_neighbors_change_places_and_nothing_else_does(dtype: DType) -> None:
    old, new = (one.float().view(-1) for one in (_x(dtype), _x(dtype, exchange=7)))
    assert new[7:9].tolist() == old[7:9].flip(0).tolist()
    assert torch.equal(new[:7], old[:7])
    assert torch.equal(new[9:], old[9:])
    with pytest.raises(ProblemError, match="exchange"):
        _x(dtype, exchange=23)  # the last element


def test_shifts_alternate_from_slice_to_slice_and_are_exact() -> None:
    for dtype in (DType.FLOAT16, DType.BFLOAT16):
        base = _x(dtype, kind="small_integers").float()
        moved = _x(dtype, kind="small_integers", shift=96.0, shift_axis=1).float()
        signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
        assert torch.equal(moved - base, 96.0 * signs[:, None].expand(6, 4))


@pytest.mark.parametrize(
    "parameters",
    [
        {"take": (0,), "take_axis": "depth", "take_of": 6},
        {"take": (6,), "take_axis": "rows", "take_of": 6},
        {"take": 3, "take_axis": "rows", "take_of": 6},
        {"take": (), "take_axis": "rows", "take_of": 6},
        {"take": (0,), "take_axis": "rows"},
        {"shift": 1.0, "shift_axis": 2},
        {"scale_by": "two"},
        {"part": 0},
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters: Mapping[str, FillValue]) -> None:
    with pytest.raises(ProblemError, match=r"fill parameter '\w+' of input 'x' is .*, expected"):
        _filled(Fill(kind="normal", parameters=parameters))


def test_values_of_the_problems_own_generator_are_transformed() -> None:
    spec = TensorSpec(name="x", dtype=DType.FLOAT32, shape=("rows",), domain=Opaque())
    made = problem(
        "p",
        axes=[axis("rows")],
        inputs=[spec],
        outputs=[tensor("y", "rows")],
        workloads=[{"rows": 4}],
    )
    trial = FakeTrial(made, lambda x: x, generator=lambda axes, _: {"x": torch.arange(4.0)})
    fill = Fill(
        kind="generated", parameters={"take": (3, 2, 1, 0), "take_axis": "rows", "take_of": 4}
    )
    case = Case(label="c", axes={"rows": 4}, fills={"x": fill}, generator=True)
    assert torch.equal(torch.as_tensor(trial.inputs(case)["x"]), torch.tensor([3.0, 2.0, 1.0, 0.0]))


def test_a_large_tensor_repeats_the_changes_of_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill = Fill(kind="zeros", parameters={"vary": 0.5, "vary_seed": 3})
    whole = _filled(fill)
    assert len(set(whole.reshape(-1).tolist())) == whole.numel()
    monkeypatch.setattr(transforms, "_DRAWN", 7)
    flat = _filled(fill).reshape(-1)
    assert torch.equal(flat[:7], whole.reshape(-1)[:7])
    assert torch.equal(flat[7:14], flat[:7])


def test_a_mirrored_half_takes_the_other_one_back() -> None:
    plain = _x(DType.BFLOAT16, rows=7).float()
    mirrored = _x(DType.BFLOAT16, rows=7, mirror=(0,), mirror_by=-2.0).float()
    assert torch.equal(mirrored[:3], plain[:3])
    assert torch.equal(mirrored[3:6], -2.0 * plain[:3])
    assert torch.equal(mirrored[6], plain[6])


def test_dimensions_after_the_first_repeat_themselves() -> None:
    value = _x(mirror=(0, 1), mirror_by=-1.0)
    assert torch.equal(value[3:], -value[:3])
    assert torch.equal(value[:, 2:], value[:, :2])


def test_a_dimension_that_is_not_there_cannot_be_mirrored() -> None:
    with pytest.raises(ProblemError, match="mirror"):
        _x(mirror=(2,), mirror_by=1.0)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_slices_take_other_values_and_the_others_stay(dtype: DType) -> None:
    base = _x(dtype).float()
    changed = _x(dtype, slices=(1, 4), slices_axis=0, slices_seed=3).float()
    others = [0, 2, 3, 5]
    assert torch.equal(changed[others], base[others])
    assert all(not torch.equal(changed[row], base[row]) for row in (1, 4))


def test_slices_of_packed_pairs_take_other_bytes() -> None:
    base = _x(DType.FLOAT4_E2M1FN_X2).view(torch.uint8)
    changed = _x(DType.FLOAT4_E2M1FN_X2, slices=(1,), slices_axis=0, slices_seed=3)
    assert (changed.view(torch.uint8) == base).all(-1).tolist() == [True, False] + 4 * [True]
