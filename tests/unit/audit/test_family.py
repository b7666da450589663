"""The family of an operator, from the first of its names that tells one."""

from __future__ import annotations

import pytest

from cuassay.audit.family import operator_family


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("fused_rmsnorm_fp8_quant", "quantisation"),
        ("flash_attention_softmax", "attention"),
        ("MultiHeadAttention", "attention"),
        ("gqa-paged-decode", "attention"),
        ("topk_gating_moe", "mixture of experts"),
        ("AdamW", "optimizer"),
        ("36_RMSNorm_", "norm"),
        ("40_LayerNorm", "norm"),
        ("1_Square_matrix_multiplication_", "matrix product"),
        ("CrossEntropyLoss", "loss"),
        ("conv_transposed_2d", "convolution"),
        ("47_Sum_reduction", "reduction"),
        ("SwiGLU", "gated unit"),
        ("vector-add", "elementwise"),
        ("kernel", "other"),
    ],
)
def test_families_of_names(name: str, family: str) -> None:
    assert operator_family(name) == family


def test_what_the_problem_says_of_its_kind_comes_first() -> None:
    assert operator_family("kernel_7", op_type="softmax") == "softmax"
    assert operator_family("kernel_7", description="A rotary embedding.") == "embedding"
    assert operator_family("linear", op_type="rmsnorm", description="softmax") == "norm"


def test_what_surrounds_the_operator_is_not_read() -> None:
    told = "Adds a bias.\nUsed between attention and softmax."
    assert operator_family("kernel", description=told) == "elementwise"
