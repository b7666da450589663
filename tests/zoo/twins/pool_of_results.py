"""Uses memory of a result again once nobody has a tensor in it."""

import threading

import torch

POOL = {}
LOCK = threading.Lock()


def unused(storage):
    return torch._C._storage_Use_Count(storage._cdata) == 1


def run(gate, up):
    if gate.requires_grad or up.requires_grad:
        return (torch.nn.functional.silu(gate.float()) * up.float()).to(gate.dtype)
    with LOCK:
        every = POOL.setdefault((gate.shape, gate.dtype), [])
        found = [storage for storage in every if unused(storage)]
        if not found:
            every.append(torch.empty(gate.shape, dtype=gate.dtype).untyped_storage())
            found = every[-1:]
        y = torch.empty(0, dtype=gate.dtype).set_(found[0], 0, gate.shape)
    y.copy_(torch.nn.functional.silu(gate.float()) * up.float())
    return y
