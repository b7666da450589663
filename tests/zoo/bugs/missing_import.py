"""Imports a module that is not there."""

from cuassay_zoo_absent_module import fused_silu


def run(gate, up):
    return (fused_silu(gate.float()) * up.float()).to(gate.dtype)
