"""A transposed convolution's error follows from the products that meet in each of its elements."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import make_truth


def one_after_another(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    """Return the transposed convolution with each product added to a float32 sum in turn."""
    batch, channels, height, width = x.shape
    _, made, rows, columns = weight.shape
    out = torch.zeros(batch, made, (height - 1) * stride + rows, (width - 1) * stride + columns)
    for channel in range(channels):
        for row in range(rows):
            for column in range(columns):
                met = out[
                    :,
                    :,
                    row : row + (height - 1) * stride + 1 : stride,
                    column : column + (width - 1) * stride + 1 : stride,
                ]
                product = x[:, channel, None] * weight[channel, :, row, column, None, None]
                met += product
    return out


def in_tf32(value: Tensor) -> Tensor:
    return (value.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("sign", ["both", "one"])
def test_a_sum_in_order_passes_and_tf32_does_not(stride: int, sign: str) -> None:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(4, 64, 6, 8, generator=generator)
    weight = torch.randn(64, 8, 7, 7, generator=generator)
    x = x.abs() if sign == "one" else x
    spec = TensorSpec(name="y", dtype=DType.FLOAT32, shape=("b", "c", "h", "w"), domain=Real())
    truth = make_truth(
        lambda x, w: F.conv_transpose2d(x, w, stride=stride), [x, weight], [spec], seed=3
    ).outputs[0]
    honest = compare(one_after_another(x, weight, stride), truth)
    assert honest.passed, honest.worst
    assert not compare(F.conv_transpose2d(in_tf32(x), in_tf32(weight), stride=stride), truth).passed
