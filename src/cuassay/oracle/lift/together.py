"""Several lifted runs of a reference at once: what differs between runs has an axis of runs.

The reference runs once. Its tensors look as they do in a single run; those that a hook made differ
hold all runs in one tensor, behind torch's batching rules (`torch.vmap`), so that an operation on
small tensors costs as much as in one run. Numbers are those of runs one after another, up to the
last bits of a sum whose order torch chooses by shape.

What depends on the numbers of a single run raises NotTogether: a branch on a value, a write of what
differs into what does not. The runs are then made one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Hook, Observed, Operation, PassThrough, mapped
from cuassay.oracle.lift.session import Session
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted

_functorch: Any = torch._C._functorch
# What a reference makes to write into it: each run gets its own.
_WRITTEN_INTO = frozenset((
    "clone", "empty", "empty_like", "empty_strided", "full", "full_like", "new_empty",
    "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "zeros",
    "zeros_like",
))  # fmt: skip
_KEYS: Any = torch._C.DispatchKey
_BATCHING = (
    _KEYS.FuncTorchBatched,
    _KEYS.FuncTorchVmapMode,
    _KEYS.FuncTorchDynamicLayerFrontMode,
    _KEYS.FuncTorchDynamicLayerBackMode,
)
_COPY = torch.ops.aten.copy.default
_LEVEL = 1  # of torch's transforms: ours is the outermost


class NotTogether(BaseException):  # passes the reference's `except Exception`
    """These runs have to be made one after another."""


def differs(tensor: Tensor) -> bool:
    """Return whether a tensor has an axis of runs. Inside of `runs_of` alone."""
    found: bool = _functorch.is_batchedtensor(tensor)
    return found


def all_runs(tensor: Tensor) -> Tensor:
    """Return the memory of all runs of a tensor, in any order of axes; itself where none differ."""
    found: Tensor = _functorch.get_unwrapped(tensor) if differs(tensor) else tensor
    return found


def by_run(tensor: Tensor, count: int) -> Tensor:
    """Return a tensor's values with the axis of runs first, (count, ...)."""
    found: Tensor = _functorch._remove_batch_dim(tensor, _LEVEL, count, 0)
    return found


def first_run(value: Any) -> Any:
    """Return what the first run has of a tensor; anything else as it is."""
    return by_run(value, 1)[0] if isinstance(value, Tensor) and differs(value) else value


def together(values: Tensor) -> Tensor:
    """Return (count, ...) values as one tensor whose runs differ."""
    found: Tensor = _functorch._add_batch_dim(values, 0, _LEVEL)
    return found


def bits_as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bits of a tensor as a type of the same size. torch 2.11 has no batching rule."""
    if not differs(tensor):
        return tensor.view(dtype)
    return together(by_run(tensor, 1).view(dtype))


@contextmanager
def runs_of(count: int) -> Iterator[None]:
    """Open a block in which `count` runs are behind the tensors that differ."""
    torch_c: Any = torch._C
    included = torch_c._dispatch_tls_local_include_set()
    excluded = torch_c._dispatch_tls_local_exclude_set()
    for key in _BATCHING:  # a dispatch mode runs below them
        excluded = excluded.remove(key)
    with torch_c._ForceDispatchKeyGuard(included, excluded):
        level = _functorch._vmap_increment_nesting(count, "same")
        try:
            if level != _LEVEL:
                raise NotTogether("the reference is inside of a transform of torch")
            yield
        finally:
            _functorch._vmap_decrement_nesting()


class TogetherSession(Session):
    """A session of `count` runs. Its outputs are (count, ...)."""

    def __init__(self, to: torch.dtype, hook: Hook | None, count: int) -> None:
        super().__init__(to, hook)
        self._count, self._open = count, False

    def dispatch(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one operation of the reference for all runs.

        Raises NotTogether for whatever it raises: the reference may have raised it itself.
        """
        if self._open or self.bypass:
            return super().dispatch(op, args, kwargs)
        self._open = True
        try:
            with runs_of(self._count):
                return super().dispatch(op, args, kwargs)
        except Exception as error:
            raise NotTogether(str(error)) from error
        finally:
            self._open = False

    def output(self, tensor: Tensor, to: torch.dtype | None) -> Tensor:
        """Return an output of every run, with the axis of runs first."""
        with runs_of(self._count):
            return by_run(super().output(tensor, to), self._count)

    def call(self, low: Operation) -> Any:
        """Run an operation on payloads; what is made to be written into is each run's own."""
        if low.op is _COPY:  # which torch, without a batching rule, makes for one run at a time
            target, source = low.named["self"], low.named["src"]
            return source.to(target.device, target.dtype).expand(target.shape).clone()
        out = super().call(low)
        # Before a hook sees it: hooks know tensors by their memory.
        return mapped(out, self._own) if low.name in _WRITTEN_INTO else out

    def _wrap(self, out: Tensor, index: int, nominals: Any) -> Tensor:
        if out.dtype not in LIFTABLE and differs(out):  # places and truths of each run
            return Lifted(out, out.dtype, self)
        return super()._wrap(out, index, nominals)

    def _own(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype not in LIFTABLE or differs(value):
            return value
        return together(value.expand(self._count, *value.shape).clone())


class Notes(PassThrough):
    """Keeps the operations of one run, to make them again on what differs between runs."""

    def __init__(self) -> None:
        self._operations: list[tuple[Operation, Any]] = []

    def after(self, operation: Operation, out: Any) -> object:
        """Keep the operation with its result."""
        self._operations.append((operation, out))
        return out

    def again(self, found: Any, given: Iterable[tuple[Tensor, Tensor]], observed: Observed) -> Any:
        """Return `found`, a result of the run noted, of a run on other tensors, shown to hooks.

        `given` are the tensors that went in, each with the one that goes in now. Raises NotTogether
        where an operation of the run wrote into a tensor.
        """
        known = {id(before): now for before, now in given}

        def now(value: Any) -> Any:
            return known.get(id(value), value) if isinstance(value, Tensor) else value

        for operation, out in self._operations:
            if operation.op._schema.is_mutable:
                raise NotTogether("a decomposition that writes")
            other = operation.on(now)
            made = observed.shown(other.op, other.args, other.kwargs)
            pairs = zip(tensors_in(out), tensors_in(made), strict=True)
            known.update((id(before), after) for before, after in pairs)
        # A decomposition returns tuples with names, which are not made of a list.
        return mapped(tuple(found) if isinstance(found, tuple) else found, now)
