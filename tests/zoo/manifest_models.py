"""Kernels as models' code has them, and what is planted in them: `models/`.

`models/NAME.py` must be accepted by the checks of numbers, whatever it rounds to 16 bits on the
way; `models/NAME.FAULT.diff` plants a fault that they must reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.zoo import planted

HERE = Path(__file__).parent / "models"
CODES = ("NUM001", "NUM002", "NUM003")

# name | problem | faults
_MODELS = """
rmsnorm_llama | rmsnorm | sums_in_16_bits no_epsilon statistic_in_16_bits
rmsnorm_gemma_style | rmsnorm |
rmsnorm_t5_style | rmsnorm |
rmsnorm_llama_float16 | rmsnorm@float16 |
rmsnorm_functional | rmsnorm |
add_rmsnorm_llama | fused_add_rmsnorm | sums_in_16_bits no_epsilon
add_rmsnorm_vllm | fused_add_rmsnorm |
rope_llama | rope_neox | wrong_turn
rope_llama_float16 | rope_neox@float16 |
rope_liger_style | rope_neox |
rope_interleaved_gptj | rope_interleaved |
rope_stored_products | rope_interleaved |
rope_llama3_model | rope_llama3 | angles_in_16_bits
moe_combine_mixtral | moe_combine | unweighted
moe_combine_index_add | moe_combine |
swiglu_model | swiglu |
swiglu_steps | swiglu |
swiglu_by_tanh | swiglu | tail_in_16_bits
swiglu_float16 | swiglu@float16 |
geglu_model | geglu |
geglu_float16 | geglu@float16 |
geglu_written_out | geglu | by_sigmoid wrong_constant
geglu_written_out_float16 | geglu@float16 | wrong_constant
layernorm_model | layernorm |
layernorm_cast_back | layernorm | sums_in_16_bits no_epsilon
cross_entropy_upcast | cross_entropy |
linear_cross_entropy_lm_head | linear_cross_entropy |
cross_entropy_backward_torch | cross_entropy_backward |
attention_eager | attention | sums_in_16_bits no_scale
attention_eager_float16 | attention@float16 |
attention_flash | attention | sums_in_16_bits stale_maximum
gemm_bias_gelu_linear | gemm_bias_gelu | sums_in_16_bits
swiglu_backward_steps | swiglu_backward |
swiglu_backward_autograd | swiglu_backward |
rmsnorm_backward_saved_in_16_bits | rmsnorm_backward | sums_in_16_bits
moe_experts_linear | moe_experts |
gemm_torch | gemm | sums_in_16_bits
attention_softcap_eager | attention_window_softcap |
batchnorm_frozen | zoo:frozen_batchnorm | sign_lost shift_unscaled
batchnorm_frozen_by_root | zoo:frozen_batchnorm |
recurrence_chunked | zoo:decayed_recurrence | logarithms_in_16_bits forgotten_decay
fp8_wgmma | fp8_gemm | sums_in_16_bits nine_bits sums_in_float16
fp8_promote | fp8_gemm |
fp8_exact | fp8_gemm | no_scale
fp8_block_deepgemm | fp8_gemm_block | sums_in_16_bits
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A kernel of a problem as models write it; `faults` name what is planted in it."""

    name: str
    problem: str
    faults: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The right kernel's file."""
        return HERE / f"{self.name}.py"

    def planted(self, fault: str, folder: Path) -> Path:
        """Write the kernel with a fault planted into a folder and return its file."""
        patch = (HERE / f"{self.name}.{fault}.diff").read_text(encoding="utf-8")
        path = folder / f"{self.name}_{fault}.py"
        whole = planted.patched(self.path.read_text(encoding="utf-8"), patch)
        path.write_text(whole, encoding="utf-8")
        return path


def _model(line: str) -> Model:
    name, problem, faults = (cell.strip() for cell in line.split("|"))
    return Model(name=name, problem=problem, faults=tuple(faults.split()))


MODELS = tuple(_model(line) for line in _MODELS.strip().splitlines())
