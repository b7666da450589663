"""A reference on a CPU that adds 16-bit numbers as a GPU's atomics do: each addition rounded.

torch's CPU rounds such a sum once. On a GPU a sum of many terms of one sign stops to grow, in the
reference as in every kernel that adds so: 256 ones is where bfloat16 ends.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuassay.hooks import Operation, PassThrough

_NARROW = (torch.bfloat16, torch.float16)


class ByAtomics(PassThrough):
    """Lets index_add, scatter_add and scatter_reduce of 16 bits round after each term."""

    def replace(self, operation: Operation) -> object:
        """Return such a sum; leave the others to torch."""
        kind, named = operation.name, operation.named
        kept, name = named.get("self"), operation.op.overloadpacket.__name__
        if not isinstance(kept, Tensor) or kept.dtype not in _NARROW or not kept.dim():
            return NotImplemented
        out = kept if name.endswith("_") else kept.clone()
        index, dim = named.get("index"), named.get("dim")
        if not isinstance(index, Tensor) or not isinstance(dim, int):
            return NotImplemented
        if kind == "index_add":
            terms = named["source"] * named.get("alpha", 1)
            _add(out.movedim(dim, 0), index.reshape(-1), terms.movedim(dim, 0))
            return out
        summed = named.get("reduce", "sum") == "sum" and named.get("include_self", True)
        if summed and kind in ("scatter_add", "scatter_reduce"):
            terms = named["src"][tuple(slice(size) for size in index.shape)]
            # Where each term goes in the flattened result.
            places = torch.zeros_like(index)
            for axis, size in enumerate(out.shape):
                along = torch.arange(index.shape[axis]).reshape(
                    [-1 if d == axis else 1 for d in range(index.dim())]
                )
                places = places * size + (index if axis == dim % out.dim() else along)
            flat = out.reshape(-1)
            _add(flat, places.reshape(-1), terms.reshape(-1))
            return out.copy_(flat.reshape(out.shape))
        return NotImplemented


def _add(out: Tensor, places: Tensor, terms: Tensor) -> None:
    """Add each row of `terms` to the row of `out` at its place, in order, one after another."""
    if not len(places):
        return
    order = places.argsort(stable=True)
    ordered = places[order]
    turn = torch.arange(len(places)) - torch.searchsorted(ordered, ordered)
    turns = turn.argsort(stable=True)
    begin = 0
    for count in torch.bincount(turn).tolist():  # the first term of every place, the second, ...
        chosen = order[turns[begin : begin + count]]
        out[places[chosen]] = out[places[chosen]] + terms[chosen]
        begin += count
