"""Products with packed 4-bit weights, unpacked code by code."""

from __future__ import annotations

import numpy as np
import torch

from cuassay.catalog.gemm_int4 import codes_of
from tests.support.catalog import near, run


def test_codes_lie_in_a_word_the_first_in_the_lowest_bits() -> None:
    packed = torch.tensor([[0x76543210, -1]], dtype=torch.int32)
    assert codes_of(packed, 1).tolist() == [[*range(8), *[15] * 8]]
    assert codes_of(packed.T, 0).flatten().tolist() == [*range(8), *[15] * 8]


def test_w4a16_gemm_formula() -> None:
    v, (y,) = run("w4a16_gemm")
    words, zeros, scales = v["weight"] & 0xFFFFFFFF, v["zeros"] & 0xFFFFFFFF, v["scales"]
    size = v["a"].shape[1] // len(scales)
    expected = np.zeros_like(y)
    for row in range(v["a"].shape[1]):
        for column in range(y.shape[1]):
            code = int(words[row // 8, column]) >> 4 * (row % 8) & 15
            zero = int(zeros[row // size, column // 8]) >> 4 * (column % 8) & 15
            expected[:, column] += v["a"][:, row] * (code - zero) * scales[row // size, column]
    near(y, expected, atol=4e-3)
