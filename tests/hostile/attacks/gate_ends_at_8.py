# problem: swiglu
# class: values
# wrong: gates beyond 8
# named: magnitudes
import torch


def right(gate, up):
    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)


def run(gate, up):
    return right(gate.clamp(max=8), up)
