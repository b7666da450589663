"""Kernels that everybody runs: torch.compile, SDPA's back ends, Liger-Kernel.

Judged on a GPU, by tests/gpu and `benchmarks/false_alarms.py --kinds trusted`. Liger rounds
some intermediate values to the inputs' dtype where the catalogue's operators do not; those are
judged in float32, where the two agree, or against a problem that rounds as it does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "trusted"
_HALVES = "bfloat16 float16"
_WIDE = "float32"
_ALL = f"{_HALVES} {_WIDE}"
_TABLE = {
    "compile_rmsnorm": ("rmsnorm", _HALVES),
    "compile_softmax_softcap": ("softmax_softcap", _HALVES),
    "compile_swiglu": ("swiglu", _HALVES),
    "compile_layernorm_backward": ("layernorm_backward", _HALVES),
    "compile_rope_neox": ("rope_neox", _HALVES),
    "compile_cross_entropy_backward": ("cross_entropy_backward", _HALVES),
    "compile_embedding_rmsnorm_backward": ("embedding_rmsnorm_backward", _HALVES),
    "compile_gemm_bias_gelu": ("gemm_bias_gelu", _HALVES),
    "compile_quantize_fp8_per_row": ("quantize_fp8_per_row", _HALVES),
    "compile_adamw_step": ("adamw_step", _HALVES),
    "sdpa_flash": ("attention", _HALVES),
    "sdpa_efficient": ("attention", _HALVES),
    "sdpa_cudnn": ("attention", _HALVES),
    "sdpa_math": ("attention", _HALVES),
    "liger_rmsnorm": ("rmsnorm", _HALVES),
    "liger_rmsnorm_backward": ("rmsnorm_backward", _ALL),
    "liger_layernorm": ("layernorm", _ALL),
    "liger_layernorm_backward": ("layernorm_backward", _ALL),
    "liger_rope": ("rope_neox", _ALL),
    "liger_swiglu": ("zoo:swiglu_eager", "bfloat16"),
    "liger_geglu": ("geglu", _WIDE),
    "liger_fused_add_rmsnorm": ("fused_add_rmsnorm", _WIDE),
    "liger_cross_entropy_backward": ("cross_entropy_backward", _WIDE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """A kernel of a library in one working dtype; `needs` is the package to be installed."""

    name: str
    problem: str
    dtype: str
    needs: str = ""

    @property
    def path(self) -> Path:
        """The candidate's file."""
        return HERE / f"{self.name}.py"

    @property
    def installed(self) -> bool:
        """Whether the package that it needs can be imported."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    @property
    def variant(self) -> str | None:
        """The dtype to ask the catalogue for; a problem of the zoo has its own."""
        return None if self.problem.startswith("zoo:") else self.dtype


def _trusted() -> Iterator[Trusted]:
    for name, (problem, dtypes) in _TABLE.items():
        needs = "liger_kernel" if name.startswith("liger_") else ""
        for dtype in dtypes.split():
            yield Trusted(name=name, problem=problem, dtype=dtype, needs=needs)


TRUSTED = tuple(_trusted())
