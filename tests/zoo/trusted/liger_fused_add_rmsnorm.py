"""Liger-Kernel's RMSNorm of a sum, forward only, all in float32 ("gemma")."""

from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward


def run(x, residual, weight, eps):
    return fused_add_rms_norm_forward(x, residual, weight, eps, 0.0, "gemma")[:2]
