"""One operation of a run of torch, and the hooks that watch or change operations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch._ops import OpOverload

from cuassay.dispatch_modes import UntracedMode, tensors_in

_PRIMS = {"inp": "self", "a": "self", "b": "other", "dims": "dim"}
_NESTED = (list, tuple, dict)
T = TypeVar("T")


# Called before each operation of a lifted run, and of one that hooks are shown.
run_end: ContextVar[Callable[[], object]] = ContextVar("run_end", default=lambda: None)


@contextmanager
def runs_ended_by(check: Callable[[], object]) -> Iterator[None]:
    """Let what `check` raises end a run of this block between two of its operations.

    A run of a reference that loops in Python takes seconds, and a truth is many runs.
    """
    before = run_end.set(check)
    try:
        yield
    finally:
        run_end.reset(before)


class _Once(Generic[T]):
    """What is found of an operation once. Python 3.11 takes a lock for a `cached_property`."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find, self._name = find, find.__name__
        self.__doc__ = find.__doc__

    def __get__(self, operation: Any, kind: type | None = None) -> T:
        found = operation.__dict__[self._name] = self._find(operation)
        return found


@dataclass(frozen=True, eq=False)  # without slots: `name` and `named` are found once
class Operation:
    """An operation with its arguments: of ATen, or a Python function of torch.

    A hook sees plain tensors in lifted precision whose `nominal_of` answers. `nominal` is the
    dtype as written of the first floating result, None where none is floating.
    """

    op: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    nominal: torch.dtype | None = None

    @_Once
    def name(self) -> str:
        """The name without namespace, overload and in-place underscore."""
        return base_name(self.op)

    @_Once
    def named(self) -> dict[str, Any]:
        """The arguments by schema name, defaults filled in."""
        names, defaults = _arguments(self.op)
        found = {**defaults, **dict(zip(names, self.args, strict=False)), **self.kwargs}
        if self.op.namespace == "prims":  # decompositions call torch's primitives
            return {_PRIMS.get(name, name): value for name, value in found.items()}
        return found

    def run(self) -> Any:
        """Return what the operation returns; its stand-in's where no device here has it."""
        try:
            return self.op(*self.args, **self.kwargs)
        except (RuntimeError, ValueError):
            stand_in = stand_ins.get(self.op)
            if stand_in is None:
                raise
            return stand_in(self)

    def on(self, change: Callable[[Any], Any]) -> Operation:
        """Return the operation with every argument changed, also those in lists and tuples."""
        args, kwargs = mapped(self.args, change), mapped(self.kwargs, change)
        return Operation(self.op, args, kwargs, self.nominal)

    def under(self, nominal: torch.dtype | None) -> Operation:
        """Return the operation with another nominal dtype of its result."""
        same = nominal is self.nominal
        return self if same else Operation(self.op, self.args, self.kwargs, nominal)


# What makes the result of an operation that a device lacks, or raises as the device does.
stand_ins: dict[Any, Callable[[Operation], Any]] = {}


class Hook(Protocol):
    """Watches and changes the operations of a run, in the order they run.

    In a run as written (`Observed`) every operation is shown as torch dispatches it. In a lifted
    run writing operations (add_, copy_, out=) are shown in their functional form where ATen has
    one, the result is written afterwards, and views are not shown.
    """

    def replace(self, operation: Operation) -> object:
        """Return the result to use instead, or NotImplemented to run the operation."""

    def after(self, operation: Operation, out: Any) -> object:
        """Return the result, changed or not."""


class PassThrough:
    """A hook that lets every operation run and leaves its result."""

    def replace(self, operation: Operation) -> object:
        """Let the operation run."""
        return NotImplemented

    def after(self, operation: Operation, out: Any) -> object:
        """Leave the result as it is."""
        return out


class WriteHook(PassThrough):
    """A hook that is told what is written into a run's memory, beside results (`after`)."""

    def written(self, target: Tensor, value: Tensor | None) -> None:
        """Follow `value` into `target`; None where an operation wrote it that is not shown."""


class Following(WriteHook):
    """A hook that keeps something beside every element of a run's memory.

    It is told where memory comes from as well.
    """

    def given(self, tensor: Tensor, *, number: bool = False) -> None:
        """Meet an input, a tensor that the reference found outside itself, or a number."""

    def literal(self, holds_tensors: bool) -> None:
        """Meet a literal; with `holds_tensors` numbers of it were elements of tensors."""


class Observed(UntracedMode):
    """Shows hooks the operations of the running thread, as torch dispatches them.

    All hooks see one run: each is asked before an operation, until one of them replaces it, and
    then each is told its result. With `only_new` operations whose results share memory with their
    arguments are not shown: views, and those that write. `nominal` is what the hooks take for the
    dtype as written of every result.
    """

    def __init__(
        self, *hooks: Hook, only_new: bool = False, nominal: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self._hooks, self._only_new, self._nominal = hooks, only_new, nominal
        self._end = run_end.get()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, or what a hook puts in its place."""
        return self.shown(func, args, kwargs or {})

    def shown(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of an operation that the hooks are shown."""
        self._end()
        operation = Operation(func, args, kwargs, self._nominal)
        if self._only_new and any(one.alias_info is not None for one in func._schema.returns):
            return operation.run()
        out: Any = NotImplemented
        for hook in self._hooks:
            out = hook.replace(operation)
            if out is not NotImplemented:
                break
        if out is NotImplemented:
            out = operation.run()
        for hook in self._hooks:
            out = hook.after(operation, out)
        return out


class EndlessRun(BaseException):
    """Ends a run of more operations than anybody waits for.

    A BaseException, so that a reference that catches exceptions ends as well.
    """


class OperationLimit(PassThrough):
    """Raises EndlessRun at the first operation beyond `most`.

    A loop over an axis is one operation and more at each place: at 65,536 places it takes minutes.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    def replace(self, operation: Operation) -> object:
        """Let the operation run, if it is within the limit."""
        self._left -= 1
        if self._left < 0:
            raise EndlessRun
        return NotImplemented


class MultiplyAdds(PassThrough):
    """Adds up the multiply-adds of products, convolutions and attention."""

    def __init__(self) -> None:
        self.count = 0

    def after(self, operation: Operation, out: Any) -> object:
        """Count those of the operation."""
        self.count += multiply_adds(operation, out)
        return out


def multiply_adds(operation: Operation, out: Any) -> int:
    """Return the multiply-adds of one product, convolution or attention; 0 for the others."""
    from torch.utils.flop_counter import flop_registry

    count = flop_registry.get(operation.op.overloadpacket)
    if count is None:
        return 0
    return int(count(*operation.args, **operation.kwargs, out_val=out)) // 2


@functools.cache
def _arguments(op: OpOverload) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the names of an operation's arguments, and the defaults of those that have one."""
    listed = op._schema.arguments
    defaults = {one.name: one.default_value for one in listed if one.has_default_value()}
    return tuple(one.name for one in listed), defaults


@functools.cache
def base_name(op: OpOverload) -> str:
    """Return the operation's name without namespace, overload and in-place underscore."""
    name = op._schema.name.split("::")[-1]
    return name[:-1] if name.endswith("_") and not name.startswith("_") else name


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested lists, tuples and dicts with every leaf changed."""
    if not isinstance(value, _NESTED):
        return change(value)
    if isinstance(value, dict):
        return {name: mapped(item, change) for name, item in value.items()}
    return type(value)(
        [mapped(one, change) if isinstance(one, _NESTED) else change(one) for one in value]
    )


def floating_in(value: Any) -> list[Tensor]:
    """Return the floating and complex tensors among them."""
    if isinstance(value, Tensor):
        dtype = value.dtype
        return [value] if dtype.is_floating_point or dtype.is_complex else []
    return [t for t in tensors_in(value) if (d := t.dtype).is_floating_point or d.is_complex]
