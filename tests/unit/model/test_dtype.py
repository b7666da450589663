"""Element types by torch's names: their sizes and constants are torch's own."""

from __future__ import annotations

import pytest
import torch

from cuassay.model.dtype import DType, low_type

_TORCH = [kind for kind in DType if hasattr(torch, kind.value)]
_FLOATS = [kind for kind in _TORCH if kind.is_floating and kind is not DType.FLOAT4_E2M1FN_X2]


@pytest.mark.parametrize("kind", _TORCH)
def test_sizes_and_kinds_are_torch_s(kind: DType) -> None:
    theirs: torch.dtype = getattr(torch, kind.value)
    assert kind.itemsize == theirs.itemsize
    assert kind.is_floating == theirs.is_floating_point


@pytest.mark.parametrize("kind", _FLOATS)
def test_constants_are_torch_s(kind: DType) -> None:
    info, ours = torch.finfo(getattr(torch, kind.value)), kind.float_format
    assert ours.maximum == info.max
    assert ours.smallest_normal == info.smallest_normal
    near = torch.tensor(
        [1 + 2 * ours.unit_roundoff, 1 + 0.9 * ours.unit_roundoff], dtype=torch.float64
    )
    assert near.to(getattr(torch, kind.value)).double().tolist() == [near[0].item(), 1.0]
    least = torch.tensor(ours.smallest_subnormal, dtype=torch.float64)
    assert least.to(getattr(torch, kind.value)).double() == least
    assert (least / 2.5).to(getattr(torch, kind.value)).double() == 0


def test_integers_and_packed_pairs_have_no_format() -> None:
    for kind in (DType.INT32, DType.BOOL, DType.FLOAT4_E2M1FN_X2):
        with pytest.raises(KeyError):
            _ = kind.float_format


def test_rounding_is_told_from_quantisation() -> None:
    assert [kind.value for kind in DType if kind.is_liftable] == [
        "float64", "float32", "float16", "bfloat16",
    ]  # fmt: skip
    assert all(kind.is_float8 == ("float8" in kind.value) for kind in DType)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([DType.FLOAT16, DType.FLOAT32], DType.FLOAT16),
        ([DType.FLOAT16, DType.BFLOAT16], DType.BFLOAT16),
        ([DType.FLOAT16, DType.FLOAT16, DType.BFLOAT16], DType.FLOAT16),
        ([DType.FLOAT32], DType.BFLOAT16),
    ],
)
def test_the_16_bit_type_is_what_most_are(dtypes: list[DType], expected: DType) -> None:
    assert low_type(iter(dtypes)) is expected
