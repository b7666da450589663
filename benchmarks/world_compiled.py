"""torch.compile of every catalogued reference, with TF32 on and off: what inductor makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from world_kernels import Adapter

from cuassay.catalog import registry
from cuassay.model.dtype import DType

_COMPILED = """

_compiled = torch.compile({name}, dynamic=True)


def run({given}):
    return _compiled({given})
"""
# As a library that wants TF32 has it: for the call, and no longer.
_TF32 = """

_compiled = torch.compile({name}, dynamic=True)


def run({given}):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return _compiled({given})
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
"""
# Operators with products of matrices: TF32 says nothing about others.
_PRODUCTS = """
    attention attention_backward attention_varlen attention_window_softcap batched_gemm gemm
    gemm_bias_gelu grouped_gemm linear_cross_entropy linear_cross_entropy_backward mla_decode
    moe_experts paged_attention_decode
"""


def _adapters() -> Iterator[Adapter]:
    for name in registry.names():
        problem = registry.get(name)
        module = f"cuassay.catalog.{problem.reference.path.stem}"
        given = ", ".join(one.name for one in problem.inputs)
        low = [dtype for dtype in registry.dtypes(name) if dtype is not DType.FLOAT16]
        yield Adapter(
            name=name,
            problem=name,
            package="compiled",
            needs=(f"{module}:{name}",),
            text=_COMPILED.format(name=name, given=given),
            dtypes=tuple(dtype.value for dtype in low),
        )
        if name in _PRODUCTS.split():
            yield Adapter(
                name=f"{name}_tf32",
                problem=name,
                precision="tf32",
                package="compiled",
                needs=(f"{module}:{name}",),
                text=_TF32.format(name=name, given=given),
                dtypes=("float32",),
            )


ADAPTERS = tuple(_adapters())
