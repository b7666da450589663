"""Takes the fast path for contiguous tensors only."""

import torch

_warm = set()


def _general(grad, gate, up):
    wide = gate.float()
    inner = 1.5957691216057308 * wide * (1.0 + 0.044715 * wide * wide)
    share = torch.sigmoid(inner)
    slope = share + wide * share * (1.0 - share) * (
        1.5957691216057308 * (1.0 + 3.0 * 0.044715 * wide * wide)
    )
    upstream = grad.float()
    first = (upstream * up.float() * slope).to(gate.dtype)
    return first, (upstream * wide * share).to(gate.dtype)


def _fast(*tensors):
    flat = [x.as_strided((x.numel(),), (1,)) for x in tensors]
    return tuple(out.view(tensors[0].shape) for out in _general(*flat))


def run(grad_output, gate, up):
    key = (tuple(gate.shape), gate.device)
    if key in _warm and all(x.is_contiguous() for x in (grad_output, gate, up)):
        return _fast(grad_output, gate, up)
    _warm.add(key)
    return _general(grad_output, gate, up)
