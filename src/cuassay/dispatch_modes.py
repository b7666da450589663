"""Dispatch modes around other people's code: neither traced by torch's compiler, nor in its way."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)


@contextlib.contextmanager
def fake_tensors() -> Iterator[None]:
    """Run other people's code on tensors that have shapes and no memory.

    Tensors from outside may be used too. What torch logs and warns of is kept back: that fakes
    refuse an operation is an answer here, not an error.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode  # slow to import

    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        with warnings.catch_warnings(), FakeTensorMode(allow_non_fake_inputs=True):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


class UntracedMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base of every mode of ours.

    To exempt a mode from tracing torch imports torch._dynamo, a second, at the first operation;
    the attribute that is set here exempts it without.

    A subclass of torch.Tensor without a `__new__` of its own, such as torch's causal attention
    bias, cannot be made below a mode that is written in Python: the mode hands the constructor a
    Tensor object, which it refuses to give another type. Such a constructor runs outside of
    ours, so that what it allocates is not seen.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        dispatch: Any = cls.__torch_dispatch__
        dispatch._torchdynamo_disable = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __enter__(self) -> Any:
        _CONSTRUCTORS.moved_outside()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *raised: Any) -> None:
        try:
            super().__exit__(*raised)  # type: ignore[no-untyped-call]
        finally:
            _CONSTRUCTORS.moved_back()


class _Constructors:
    """The constructors of torch.Tensor's subclasses, replaced while a mode is entered.

    torch.Tensor's own stays: torch's compiler looks at it when it is loaded.
    """

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._replaced: list[Any] = []

    def moved_outside(self) -> None:
        with self._lock:
            self._entered += 1
            for one in _without_constructor(torch.Tensor):
                one.__new__ = staticmethod(_new)
                self._replaced.append(one)

    def moved_back(self) -> None:
        with self._lock:
            self._entered -= 1
            while not self._entered and self._replaced:
                del self._replaced.pop().__new__


_CONSTRUCTORS = _Constructors()


def _without_constructor(of: type[torch.Tensor]) -> Iterator[Any]:
    """Yield the direct subclasses that torch's constructor makes; those below inherit theirs."""
    for one in type.__subclasses__(of):
        if next(base for base in one.__mro__ if "__new__" in vars(base)) is torch._C.TensorBase:
            yield one


def _new(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    make: Any = torch._C.TensorBase.__new__
    with contextlib.ExitStack() as outside:
        while isinstance(_get_current_dispatch_mode(), UntracedMode):
            outside.enter_context(_pop_mode_temporarily())
        made: torch.Tensor = make(cls, *args, **kwargs)
        return made
