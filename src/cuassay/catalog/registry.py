"""The catalogue by name. Importing this module loads no torch; `get` imports one operator."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.digest import problem_digest
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, TensorSpec

_FAMILIES: Mapping[str, str] = {
    "attention": "attention attention_varlen attention_window_softcap",
    "attention_backward": "attention_backward",
    "block_formats": (
        "mxfp4_gemm mxfp4_grouped_gemm mxfp4_moe_experts mxfp8_gemm mxfp8_gemm_swizzled "
        "mxfp8_grouped_gemm "
        "mxfp8_moe_experts nvfp4_gemm nvfp4_gemm_swizzled nvfp4_grouped_gemm nvfp4_moe_experts"
    ),
    "decode": "cache_write mla_decode paged_attention_decode paged_attention_ragged",
    "embedding": (
        "embedding embedding_grad embedding_rmsnorm_backward embedding_rmsnorm_backward_64k"
    ),
    "gemm": "batched_gemm gemm gemm_bias_gelu grouped_gemm",
    "gemm_fp8": "fp8_gemm fp8_gemm_block fp8_gemm_tensor",
    "gemm_int4": "w4a16_gemm",
    "glu": "geglu geglu_backward swiglu swiglu_backward",
    "layernorm": "groupnorm groupnorm_backward layernorm layernorm_backward",
    "losses": (
        "cross_entropy cross_entropy_backward linear_cross_entropy linear_cross_entropy_backward"
    ),
    "moe": ("moe_combine moe_experts moe_gather moe_gemm moe_route moe_route_grouped moe_scatter"),
    "norms": "fused_add_rmsnorm rmsnorm rmsnorm_backward",
    "optimizer": "adamw_step muon_step sgd_momentum_step",
    "quant": (
        "dequantize_fp8_block dequantize_int8_per_row quantize_fp8_block quantize_fp8_per_row "
        "quantize_fp8_per_tensor quantize_int8_per_row"
    ),
    "ranks": (
        "all_gather all_reduce all_reduce_rmsnorm expert_exchange gemm_reduce_scatter "
        "reduce_scatter ring_attention"
    ),
    "rope": "rope_interleaved rope_llama3 rope_neox rope_neox_backward",
    "sampling": "sample_top_k sample_top_p top_k",
    "scan": "causal_conv1d gated_linear_attention selective_scan",
    "softmax": "softmax_dropout softmax_masked softmax_softcap",
}
_MODULES: Mapping[str, str] = MappingProxyType(
    {
        name: f"cuassay.catalog.{module}"
        for module, names_in in _FAMILIES.items()
        for name in names_in.split()
    }
)
DTYPES = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32)
_WRITTEN = DType.BFLOAT16  # the working dtype that the operators are written with


def names() -> tuple[str, ...]:
    """Return the names of all catalogued operators, sorted."""
    return tuple(sorted(_MODULES))


def families() -> Mapping[str, tuple[str, ...]]:
    """Return the catalogued operators by family."""
    return {family: tuple(listed.split()) for family, listed in _FAMILIES.items()}


def source(name: str) -> str:
    """Return the text of an operator's module, read without torch. Raises UnknownNameError."""
    plain = name.partition("@")[0]
    if plain not in _MODULES:
        raise UnknownNameError("catalogue operator", plain, names())
    spec = importlib.util.find_spec(_MODULES[plain])
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def get(name: str, *, dtype: str | DType | None = None) -> Problem:
    """Return a catalogued problem; `rmsnorm@float16` or `dtype=` picks its working dtype.

    The working dtype (bfloat16 unless chosen) replaces bfloat16 in every input and output;
    tensors declared float32, such as rstd, stay. Raises UnknownNameError for the name or
    the dtype, ProblemError where both forms disagree or the operator has one form alone.
    """
    plain, _, suffix = name.partition("@")
    if plain not in _MODULES:
        raise UnknownNameError("catalogue operator", plain, names())
    if suffix and dtype is not None and suffix != str(dtype):
        raise ProblemError(f"'{name}' asks for {suffix} but dtype={dtype!s}; give one of them")
    name = suffix or str(dtype or _WRITTEN)
    legal = {dtype.value: dtype for dtype in DTYPES}
    if name not in legal:
        raise UnknownNameError("working dtype", name, legal)
    wanted = legal[name]
    problem = _written(plain)
    if wanted is _WRITTEN:
        return problem
    if wanted not in dtypes(plain):
        raise ProblemError(
            f"operator '{plain}' has no {wanted.value} form: no input is in a working dtype, its "
            f"formats are part of the operator; use '{plain}'"
        )
    return retyped(problem, wanted)


def retyped(problem: Problem, dtype: DType) -> Problem:
    """Return a problem that is written in bfloat16 with another working dtype in its place."""
    if dtype is _WRITTEN:
        return problem
    changed = dataclasses.replace(
        problem,
        name=f"{problem.name}@{dtype.value}",
        inputs=tuple(
            _tensor(spec, dtype) if isinstance(spec, TensorSpec) else spec
            for spec in problem.inputs
        ),
        outputs=tuple(_tensor(spec, dtype) for spec in problem.outputs),
        origin=problem.origin,
        digest="",
    )
    return dataclasses.replace(changed, digest=problem_digest(changed))


def dtypes(name: str) -> tuple[DType, ...]:
    """Return the working dtypes that `get` accepts for an operator, the written one first.

    An operator none of whose inputs is in the working dtype (float8 products, routing and
    sampling on float32) has one form alone. Raises UnknownNameError for the name.
    """
    if name not in _MODULES:
        raise UnknownNameError("catalogue operator", name, names())
    inputs = _written(name).inputs
    several = any(isinstance(s, TensorSpec) and s.dtype is _WRITTEN for s in inputs)
    return DTYPES if several else (_WRITTEN,)


def _written(name: str) -> Problem:
    function = getattr(importlib.import_module(_MODULES[name]), name)
    problem = function.__cuassay_problem__
    assert isinstance(problem, Problem)
    return problem


def _tensor(spec: TensorSpec, dtype: DType) -> TensorSpec:
    return dataclasses.replace(spec, dtype=dtype) if spec.dtype is _WRITTEN else spec
