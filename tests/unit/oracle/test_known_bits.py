"""Answers known by their bits: the same ones, no others, and few bytes of large ones."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.known_bits import KnownAnswers

_LARGE = (1500, 1001)  # more than is kept whole, and no multiple of a block


def gradient(*rows: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a large tensor that is zero but in some rows."""
    made = torch.zeros(_LARGE, dtype=dtype)
    for row in rows:
        made[row] = torch.arange(1.0, _LARGE[1] + 1.0)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.uint8])
@pytest.mark.parametrize("rows", [(), (3,), (_LARGE[0] - 1,), (3, 700)])
def test_a_large_answer_of_few_rows_is_known_again(
    dtype: torch.dtype, rows: tuple[int, ...]
) -> None:
    known = KnownAnswers[str](1 << 20)
    known.add("case", [gradient(*rows, dtype=dtype)], "right")
    assert known.shapes("case") == [_LARGE]
    assert known.find("case", [gradient(*rows, dtype=dtype)])
    assert not known.find("other", [gradient(*rows, dtype=dtype)])
    assert not known.find("case", [gradient(5, *rows, dtype=dtype)])
    for place in ((0, 0), (3, 7), (_LARGE[0] - 1, _LARGE[1] - 1)):
        changed = gradient(*rows, dtype=dtype)
        changed[place] = 77
        assert not known.find("case", [changed])


def test_bits_count_and_neither_values_nor_layout() -> None:
    known, one = KnownAnswers[str](1 << 20), torch.tensor([[0.0, 1.0], [float("nan"), 2.0]])
    known.add("case", [one], "right")
    assert known.find("case", [one.t().contiguous().t()])
    assert not known.find("case", [torch.where(one == 0, -0.0, one)])
    assert not known.find("case", [one.double()])
    assert not known.find("case", [one.view(4)])


def test_several_answers_to_a_case_are_known_and_what_is_changed_later_is_not() -> None:
    known, first, second = KnownAnswers[str](1 << 20), torch.zeros(8), torch.ones(8)
    known.add("case", [first, second], "right")
    known.add("case", [second, first], "right")
    assert known.find("case", [torch.zeros(8), torch.ones(8)])
    assert known.find("case", [torch.ones(8), torch.zeros(8)])
    assert not known.find("case", [torch.ones(8), torch.ones(8)])
    first.fill_(1.0)
    assert not known.find("case", [first, second])


def test_a_large_dense_answer_is_not_kept_and_the_oldest_go_first() -> None:
    known = KnownAnswers[str](64)
    known.add("dense", [torch.randn(_LARGE)], "right")
    assert not known.shapes("dense")
    for number in range(3):
        known.add(f"case {number}", [torch.full((8,), float(number))], "right")  # 32 bytes each
    assert [bool(known.shapes(f"case {number}")) for number in range(3)] == [False, True, True]


def test_a_tensor_within_another_is_known() -> None:
    known, whole = KnownAnswers[str](1 << 22), torch.zeros(1 + 3 * 1024 * 1024, dtype=torch.uint8)
    known.add("case", [whole[1:]], "right")  # at no multiple of 8 bytes
    assert known.find("case", [whole[:-1]])


def test_of_answers_that_never_come_again_few_are_kept() -> None:
    known = KnownAnswers[int](1 << 20)
    for number in range(20):
        known.add("case", [torch.full((4,), float(number))], number)
    assert known.find("case", [torch.full((4,), 19.0)]) == 19
    assert known.find("case", [torch.full((4,), 0.0)]) is None
