"""Honest rewrites of the catalogue's later operators: `honest/<problem>_<style>.py`.

Each takes another order of sums or another algorithm than the reference, often torch's own
fused operator, and must be accepted at every profile.
"""

from __future__ import annotations

from collections.abc import Mapping

HONEST_CATALOG: Mapping[str, str] = {
    "adamw_step": "float32_rates torch",
    "attention": "flash sdpa",
    "attention_backward": "autograd flash",
    "attention_varlen": "loop",
    "attention_window_softcap": "wide",
    "batched_gemm": "einsum",
    "causal_conv1d": "conv",
    "cross_entropy_backward": "autograd tiles",
    "dequantize_fp8_block": "repeat",
    "dequantize_int8_per_row": "float64",
    "embedding": "torch",
    "fp8_gemm": "split",
    "fp8_gemm_block": "promote",
    "geglu": "sigmoid tanh",
    "geglu_backward": "aten tanh",
    "gemm": "split_k torch",
    "gemm_bias_gelu": "addmm",
    "grouped_gemm": "gather",
    "groupnorm": "two_pass",
    "groupnorm_backward": "autograd",
    "layernorm": "two_pass welford",
    "layernorm_backward": "aten split",
    "linear_cross_entropy": "chunks torch",
    "linear_cross_entropy_backward": "autograd chunks",
    "mla_decode": "concat",
    "moe_combine": "accumulate",
    "moe_experts": "loop",
    "moe_gather": "counting",
    "moe_route": "logits_first",
    "moe_route_grouped": "sorted",
    "moe_scatter": "one_hot",
    "muon_step": "float32 original",
    "paged_attention_decode": "split",
    "quantize_fp8_block": "reciprocal",
    "quantize_fp8_per_row": "reciprocal",
    "quantize_fp8_per_tensor": "reciprocal",
    "quantize_int8_per_row": "reciprocal",
    "rope_interleaved": "complex",
    "rope_llama3": "exp",
    "rope_neox": "rotate_half",
    "rope_neox_backward": "autograd",
    "sample_top_k": "sorted",
    "sample_top_p": "ranked",
    "selective_scan": "sequential",
    "sgd_momentum_step": "torch",
    "softmax_dropout": "exp2",
    "softmax_masked": "online",
    "swiglu_backward": "aten",
}
