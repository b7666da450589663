"""The checksum that gives each case's noise its seed: of values, whatever memory they lie in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.oracle.truth.runs import fingerprint


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(35.0).reshape(5, 7),
        torch.arange(10.0)[::2][:1],  # counts as contiguous, and has no bytes to view
        torch.tensor(3.0),
        torch.zeros(0, 4),
        torch.arange(300).reshape(3, 100).to(torch.int16).t(),
        torch.arange(9.0).expand(4, 9),
        torch.arange(64.0).to(torch.float8_e4m3fn),
    ],
    ids=["matrix", "one strided", "scalar", "empty", "transposed", "expanded", "float8"],
)
def test_equal_values_have_one_checksum(value: Tensor) -> None:
    copy = value.clone(memory_format=torch.contiguous_format)
    assert fingerprint([value, 1.5]) == fingerprint([copy, 1.5])
    assert fingerprint([value, 1.5]) != fingerprint([value, 2.5])


def test_other_values_or_shapes_have_another_one() -> None:
    x = torch.arange(12.0)
    assert len({fingerprint([one]) for one in (x, x + 1, x.view(3, 4), x.double())}) == 4
    assert fingerprint([x, x + 1]) != fingerprint([x + 1, x])
