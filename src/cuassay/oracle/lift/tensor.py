"""The tensor that the lifted reference sees: it reports the dtype that the reference as
written would have, and carries the same value in lifted precision.

Keeping the nominal dtype on the tensor itself is what makes `torch.finfo(x.dtype).min`,
`x.dtype == torch.bfloat16`, `x.to(y.dtype)`, `x.element_size()`, autocast, autograd's own
casts and every dtype branch of a composite operator behave as written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

_REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_COMPLEX_OF = {
    torch.float16: torch.complex32,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}
_REAL_OF = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
LIFTABLE = frozenset((*_REAL, *_REAL_OF))


def lifted_dtype(nominal: torch.dtype, to: torch.dtype) -> torch.dtype:
    """Return the payload's dtype for a nominal one: `to`, or float64 where that is nominal.

    Complex types follow their real parts; integers, bool and 8-bit floats stay.
    """
    if nominal not in LIFTABLE:
        return nominal
    if nominal in _REAL_OF:
        return _COMPLEX_OF[lifted_dtype(_REAL_OF[nominal], to)]
    return torch.float64 if nominal is torch.float64 else to


def same_kind(nominal: torch.dtype, payload: torch.dtype) -> torch.dtype:
    """Return `nominal` turned real or complex as the payload is."""
    if payload.is_complex:
        return _COMPLEX_OF.get(nominal, nominal)
    return _REAL_OF.get(nominal, nominal)


class Owner(Protocol):
    """What runs an operation on lifted tensors (the session)."""

    def dispatch(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one ATen operation in lifted precision."""


class Lifted(torch.Tensor):
    """A tensor of nominal dtype, its sizes and strides the payload's; it has no storage."""

    payload: torch.Tensor
    owner: Owner
    # The payload is the caller's own memory, in the nominal dtype or a narrower one of the same
    # value: it is lifted whenever an operation reads it, and never written.
    borrowed: bool

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls, payload: torch.Tensor, nominal: torch.dtype, owner: Owner, *, borrowed: bool = False
    ) -> Lifted:
        """Wrap `payload` (not copied) as a tensor of dtype `nominal`."""
        wrapper: Lifted = torch.Tensor._make_wrapper_subclass(
            cls,
            payload.size(),
            strides=payload.stride(),
            storage_offset=payload.storage_offset(),
            dtype=nominal,
            device=payload.device,
        )
        torch._C._set_throw_on_mutable_data_ptr(wrapper)  # else extensions read address 0
        if not borrowed:
            payload.cuassay_nominal = nominal  # type: ignore[attr-defined]
        wrapper.payload = payload
        wrapper.owner = owner
        wrapper.borrowed = borrowed
        return wrapper

    def __init__(self, *_: object, **__: object) -> None:
        """Do nothing: __new__ made it, and torch.Tensor([...]) calls this once more."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Return the lifted value, printed as a plain tensor."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            return repr(self.payload.detach())

    def __format__(self, spec: str) -> str:
        """Return the lifted value, formatted as a plain tensor."""
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            return format(self.payload.detach(), spec)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation that reached the tensor while the mode is not on the stack.

        The autograd engine's device threads and code that disables modes come here.
        """
        owner = _owner(args) or _owner(tuple((kwargs or {}).values()))
        if owner is None:
            return NotImplemented
        return owner.dispatch(func, args, kwargs or {})


def _owner(values: Sequence[Any]) -> Owner | None:
    for value in values:
        if isinstance(value, Lifted):
            return value.owner
        if isinstance(value, list | tuple) and (owner := _owner(value)):
            return owner
    return None


def nominal_of(tensor: torch.Tensor) -> torch.dtype | None:
    """Return the dtype that `tensor` would have in the reference as written.

    Accepts a tensor inside a lifted reference, a hook's argument or result, or an output of
    `lift`. None for a tensor that the lift has not made (a hook's own intermediate).
    """
    if isinstance(tensor, Lifted):
        return tensor.dtype
    nominal = getattr(tensor, "cuassay_nominal", None)
    if nominal is None and tensor.dtype not in LIFTABLE:
        return tensor.dtype
    return nominal
