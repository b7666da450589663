# problem: swiglu
# class: stale answers
# wrong: every ninth call of one shape
import torch


def right(gate, up):
    return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)


HELD = {}


def run(gate, up):
    count, last = HELD.get(tuple(gate.shape), (0, None))
    answer = last.clone() if count % 9 == 8 else right(gate, up)
    HELD[tuple(gate.shape)] = count + 1, answer
    return answer
