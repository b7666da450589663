"""Widths and shadows of values by their PTX types."""

from __future__ import annotations

import pytest

from ptxsan.emit.values import Value, is_signed, lanes_of, ones_of, width_of


@pytest.mark.parametrize(
    ("type_", "width", "lanes"),
    [
        ("pred", 1, 0), ("b8", 8, 0), ("u16", 16, 1), ("f16", 16, 1), ("bf16", 16, 1),
        ("f32", 32, 1), ("tf32", 32, 1), ("b32", 32, 2), ("f16x2", 32, 2), ("bf16x2", 32, 2),
        ("f32x2", 64, 0), ("b64", 64, 2), ("f64", 64, 0), ("b128", 128, 0), ("e4m3", 8, 0),
        ("e2m1", 4, 0), ("e4m3x2", 16, 0),
    ],
)  # fmt: skip
def test_a_type_has_its_width_and_its_shadows(type_: str, width: int, lanes: int) -> None:
    assert width_of(type_) == width
    assert lanes_of(type_) == lanes


def test_a_double_has_a_shadow_where_that_is_asked_for() -> None:
    assert lanes_of("f64", doubles=True) == 1
    assert lanes_of("f32", doubles=True) == 1


def test_a_name_that_is_no_type_is_refused() -> None:
    with pytest.raises(KeyError):
        width_of("float")


def test_signs_are_copied_by_signed_types_alone() -> None:
    assert [name for name in ("s8", "s32", "u32", "b32", "f32") if is_signed(name)] == ["s8", "s32"]


def test_a_value_has_no_more_shadows_than_lanes() -> None:
    value = Value("b32", "%1", shadow=("%2",))
    assert (value.width, value.lane(0), value.lane(1)) == (32, "%2", "0.0")
    assert ones_of(32) == 0x01010101
