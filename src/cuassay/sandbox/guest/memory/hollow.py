"""Tensors of any size that take no memory: addresses and shapes, whose data nobody asks for.

Host code of a kernel runs on them as on others: it reads shapes, strides and addresses, allocates
and launches. Operators of torch compute nothing on them; what they return has the right shape. Code
that needs a number out of such a tensor ends there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from cuassay.dispatch_modes import UntracedMode, on_meta, untraced_meta_functions

_LARGE_BYTES = 1 << 24  # from here on a tensor takes no memory
_REPLACES_STORAGE = frozenset(("aten::set_", "aten::resize_", "aten::resize_as_"))


class NoDataError(RuntimeError):
    """The data of a hollow tensor was asked for, or the time for a call is up."""


class Hollow(UntracedMode):
    """Makes large tensors hollow, and whatever is computed from hollow ones.

    `ended` says why nothing counts any more that is done from now on, if so.
    """

    def __init__(self, until: float) -> None:
        super().__init__()
        self.ended = ""
        self._until = until
        self._kept: dict[int, torch.Tensor] = {}  # hollow tensors, by address

    def tensor(
        self, shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
    ) -> torch.Tensor:
        """Return a hollow tensor, contiguous unless strides are given."""
        meta = torch.empty(tuple(shape), dtype=dtype, device="meta")
        if strides is None:
            strides = meta.stride()
        steps = zip(meta.shape, strides, strict=True)
        last = sum((size - 1) * step for size, step in steps) if meta.numel() else -1
        from ptxsan import pages  # which a judge does without

        room = pages.mirror(max(last + 1, 1) * dtype.itemsize)
        made = torch.from_numpy(room).view(dtype).as_strided(tuple(shape), tuple(strides))
        self._kept[made.untyped_storage().data_ptr()] = made
        return made

    def holds(self, address: int) -> bool:
        """Whether what lies at the address of a storage is real."""
        return address not in self._kept

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation as far as it needs no data."""
        named = dict(kwargs or {})
        if time.monotonic() > self._until:
            self._end("the time for a call that computes nothing is up")
        given = [one for one in pytree.tree_leaves((args, named)) if isinstance(one, torch.Tensor)]
        hollow = any(map(self._is_hollow, given))
        schema = func._schema
        views = any(one.alias_info and not one.alias_info.is_write for one in schema.returns)
        if views or schema.name in _REPLACES_STORAGE or torch.Tag.inplace_view in func.tags:
            return func(*args, **named)
        if schema.is_mutable:
            return self._written(func, args, named) if hollow else func(*args, **named)
        try:
            sizes = on_meta(func, args, named)
        except Exception as error:
            if not hollow:
                return func(*args, **named)
            self._end(f"{schema.name} needs data or has no shape of its own: {error}")
        made = [one for one in pytree.tree_leaves(sizes) if isinstance(one, torch.Tensor)]
        large = sum(one.numel() * one.element_size() for one in made) >= _LARGE_BYTES
        if not hollow and not large:
            return func(*args, **named)
        if not made and hollow:
            self._end(f"{schema.name} asks for a number")
        return pytree.tree_map_only(
            torch.Tensor, lambda meta: self.tensor(meta.shape, meta.dtype, meta.stride()), sizes
        )

    def _end(self, why: str) -> None:
        self.ended = self.ended or why[:400]
        raise NoDataError(why[:400])

    def _is_hollow(self, tensor: torch.Tensor) -> bool:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return False
        return tensor.untyped_storage().data_ptr() in self._kept

    def _written(self, func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return what an operation writes into, without writing; it is hollow from now on."""
        held = []
        for number, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[number] if number < len(args) else named.get(argument.name)
            for one in value if isinstance(value, tuple | list) else (value,):
                if isinstance(one, torch.Tensor):
                    self._kept.setdefault(one.untyped_storage().data_ptr(), one)
                    held.append(one)
        if not func._schema.returns:
            return None
        return held[0] if len(func._schema.returns) == 1 else tuple(held)


@contextmanager
def hollow(limit_s: float) -> Iterator[Hollow]:
    """While active, large tensors that this thread makes are hollow."""
    with untraced_meta_functions(), Hollow(time.monotonic() + limit_s) as mode:
        yield mode
