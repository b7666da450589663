"""Copies of the caller's inputs that keep strides, overlaps and shared memory.

Two inputs that are views of one storage stay views of one copied storage, an expanded input
stays expanded: the reference sees what it would see, and the caller's memory is not written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cuassay.dispatch_modes import tensors_in
from cuassay.errors import LiftError
from cuassay.hooks import mapped
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted, Owner, lifted_dtype

BORROWED_ELEMENTS = 1 << 27  # a GiB in float64


def copied(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs with every tensor copied in its own dtype."""
    return _replaced(inputs, {key: copy for key, (_, copy) in _copies(inputs, None).items()})


def copied_as(
    inputs: Sequence[Any], to: torch.dtype, owner: Owner, *, borrow: bool = False
) -> list[Any]:
    """Return the inputs with floating tensors lifted to `to` and other tensors copied.

    With `borrow` large floating tensors stay the caller's memory, which operations lift when they
    read it. Raises LiftError for sparse and quantised inputs.
    """
    given = tensors_in(list(inputs))
    made: dict[int, torch.Tensor] = {}
    if borrow:
        strided = [tensor for tensor in given if tensor.layout is torch.strided]
        uses = Counter(tensor.untyped_storage().data_ptr() for tensor in strided)
        for tensor in strided:
            if is_borrowed(tensor) and uses[tensor.untyped_storage().data_ptr()] == 1:
                wrapper = Lifted(tensor.detach(), tensor.dtype, owner, borrowed=True)
                made[id(tensor)] = wrapper.requires_grad_(tensor.requires_grad)
    rest = [tensor for tensor in given if id(tensor) not in made]
    for key, (source, copy) in _copies(rest, to).items():
        made[key] = copy
        if source.dtype in LIFTABLE:
            wrapper = Lifted(copy, source.dtype, owner)
            made[key] = wrapper.requires_grad_(source.requires_grad)
    return _replaced(inputs, made)


def _replaced(inputs: Sequence[Any], made: Mapping[int, torch.Tensor]) -> list[Any]:
    return list(mapped(list(inputs), lambda v: made[id(v)] if isinstance(v, torch.Tensor) else v))


def is_borrowed(tensor: torch.Tensor) -> bool:
    """Whether an input is so large that a lifted copy of it would decide what fits.

    The weights of many experts are: a reference reads them one expert at a time.
    """
    plain = tensor.dtype in LIFTABLE and not tensor.is_complex()
    return plain and tensor.layout is torch.strided and tensor.numel() >= BORROWED_ELEMENTS


def _copies(
    inputs: Sequence[Any], to: torch.dtype | None
) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Return each tensor with its copy, by identity: in `to`, or in its own dtype for None."""
    groups: dict[tuple[int, torch.dtype, str], list[torch.Tensor]] = {}
    for tensor in tensors_in(list(inputs)):
        if tensor.layout is not torch.strided or tensor.is_quantized:
            what = tensor.layout if tensor.layout is not torch.strided else tensor.dtype
            raise LiftError("an input", "the call", f"{what} tensors are not lifted")
        memory = tensor.untyped_storage().data_ptr() or id(tensor)
        groups.setdefault((memory, tensor.dtype, str(tensor.device)), []).append(tensor)
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for (_, dtype, _), members in groups.items():
        # Copy the span of storage that the members reach, then view it as each of them does.
        low = min(t.storage_offset() for t in members)
        high = low
        for t in members:
            steps = zip(t.size(), t.stride(), strict=True)
            span = 1 + sum((n - 1) * s for n, s in steps) if t.numel() else 0
            high = max(high, t.storage_offset() + span)
        with torch.no_grad():
            whole = members[0].detach().resolve_conj().resolve_neg()
            wanted = dtype if to is None else lifted_dtype(dtype, to)
            flat = whole.as_strided((high - low,), (1,), low).to(wanted, copy=True)
            for tensor in members:
                offset = tensor.storage_offset() - low
                copy = flat.as_strided(tensor.size(), tensor.stride(), offset)
                if to is None and tensor.requires_grad:
                    copy = copy.detach().requires_grad_()
                found[id(tensor)] = (tensor, copy)
    return found
