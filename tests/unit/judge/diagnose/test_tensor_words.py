"""What is said of a tensor is true of it."""

from __future__ import annotations

import pytest
import torch

from cuassay.judge.diagnose.tensor_words import tensor_words
from cuassay.model.case import Fill


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(3, 4), "zeros"),
        (torch.ones(3, dtype=torch.int64), "ones"),
        (torch.full((5,), 7, dtype=torch.int32), "all 7"),  # of a domain that begins at 7
        (torch.tensor([0.5, -2.0]), "[0.5, -2]"),
        (torch.tensor([True, False]), "[True, False]"),
        (torch.zeros(0), "empty"),
    ],
)
def test_plain_values(value: torch.Tensor, words: str) -> None:
    assert tensor_words(value, Fill(kind="zeros")) == words


def test_few_others_are_named() -> None:
    value = torch.zeros(4, 8)
    value[0, 7] = 0.002
    assert tensor_words(value, None) == "zeros but [0, 7] = 0.002"


def test_drawn_values_have_a_recipe_and_a_range() -> None:
    value = torch.arange(64.0).reshape(4, 16)
    said = tensor_words(value, Fill(kind="normal"), row=2)
    assert said.startswith("drawn by normal, from 0 to 63; row 2: [32, 33, ")
    assert said.endswith(", ...]")
    assert tensor_words(value, None).startswith("drawn by its generator, from 0 to 63")


def test_pairs_of_four_bits_are_named_by_their_codes() -> None:
    value = torch.tensor([0x21, 0, 0], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert tensor_words(value, None) == "[33, 0, 0]"
