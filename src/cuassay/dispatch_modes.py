"""Dispatch modes around other people's code: neither traced by torch's compiler, nor in its way."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import torch
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)


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
    """torch.Tensor's constructor, replaced while at least one mode is entered."""

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0

    def moved_outside(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                torch.Tensor.__new__ = _new  # type: ignore[method-assign,assignment]

    def moved_back(self) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered and torch.Tensor.__dict__.get("__new__") is not None:
                del torch.Tensor.__new__


_CONSTRUCTORS = _Constructors()


def _new(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    make: Any = torch._C.TensorBase.__new__
    with contextlib.ExitStack() as outside:
        while cls is not torch.Tensor and isinstance(_get_current_dispatch_mode(), UntracedMode):
            outside.enter_context(_pop_mode_temporarily())
        made: torch.Tensor = make(cls, *args, **kwargs)
        return made
