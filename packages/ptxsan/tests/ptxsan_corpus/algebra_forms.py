"""Every family of operators in several forms, for the algebra."""

from __future__ import annotations

from ptxsan_corpus.algebra_family import Family, Slip
from ptxsan_corpus.algebra_points import ADAM, GELU, REDUCE
from ptxsan_corpus.algebra_products import ATTENTION, MATMUL
from ptxsan_corpus.algebra_rows import LAYERNORM, RMSNORM, SOFTMAX

FAMILIES = (SOFTMAX, RMSNORM, LAYERNORM, MATMUL, GELU, ATTENTION, ADAM, REDUCE)
__all__ = (
    "ADAM", "ATTENTION", "FAMILIES", "GELU", "LAYERNORM", "MATMUL", "REDUCE", "RMSNORM",
    "SOFTMAX", "Family", "Slip",
)  # fmt: skip
