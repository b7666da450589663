"""Signatures: what makes two calls the same to a kernel's launch code.

Shape, dtype, stride and device of every tensor, the values of flags and strings, and the types
of everything else. The key is made on every call, so it holds what is cheapest to read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

_VALUES = (bool, str, type(None), torch.dtype, torch.device)


def key_of(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Hashable:
    """Return a hashable signature of one call."""
    found = tuple(
        [
            (a.shape, a.dtype, a.stride(), a.get_device())
            if type(a) is Tensor or type(a) is Parameter
            else _other(a)
            for a in arguments
        ]
    )
    if keywords:
        return found, tuple([(name, _any(value)) for name, value in keywords.items()])
    return found


Memo = tuple[Callable[..., bool], int, int, tuple[type, ...], tuple[str, ...]]


NO_MEMO: Memo = (lambda *arguments: False, -1, 0, (), ())  # fits no call


def memo_of(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Memo:
    """Return a quick test for calls of this signature; NO_MEMO if there is none.

    (test, arguments, leading tensors, types of the numbers behind them, names of keywords). The
    test is dynamo's TensorGuards, a third of the cost of `key_of`: type, dtype, device, sizes,
    strides and whether a gradient is required. It may say no to an equal signature, never yes
    to another.
    """
    arguments = (*arguments, *keywords.values())
    count = next(
        (i for i, a in enumerate(arguments) if type(a) is not Tensor and type(a) is not Parameter),
        len(arguments),
    )
    types = tuple([type(value) for value in arguments[count:]])
    if not count or any(kind is not int and kind is not float for kind in types):
        return NO_MEMO
    tensors = arguments[:count]
    try:
        from torch._C._dynamo.guards import TensorGuards

        sizes: Any = [list(tensor.shape) for tensor in tensors]
        strides: Any = [list(tensor.stride()) for tensor in tensors]
        made = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    except Exception:  # it is private: without it, keys are made for every call
        return NO_MEMO
    return made.check, len(arguments), count, types, tuple(keywords)


def fits(memo: Memo, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether a call is certainly of the remembered signature."""
    same, given, count, types, names = memo
    values = arguments
    if keywords or names:
        if tuple(keywords) != names:
            return False
        values = (*arguments, *keywords.values())
    return (
        given == len(values) and tuple(map(type, values[count:])) == types and same(*values[:count])
    )


def _any(value: Any) -> Hashable:
    if type(value) is Tensor or type(value) is Parameter:
        return value.shape, value.dtype, value.stride(), value.get_device()
    return _other(value)


def _other(value: Any) -> Hashable:
    if isinstance(value, _VALUES):
        return type(value), value
    if isinstance(value, Tensor):  # a subclass
        return type(value), value.shape, value.dtype, value.get_device()
    if isinstance(value, list | tuple):
        return type(value), tuple([_any(item) for item in value])
    if isinstance(value, Mapping):
        return type(value), tuple([(str(key), _any(item)) for key, item in value.items()])
    if isinstance(value, Enum):
        return type(value), value.name
    if is_dataclass(value) and not isinstance(value, type):
        held = [_any(getattr(value, each.name, None)) for each in fields(value)]
        return type(value), tuple(held)
    kind: Any = type(value)
    return kind  # type: ignore[no-any-return]


def described(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Return a signature in words: `bfloat16[64, 256], eps: float`."""
    given = [value for value in arguments if not isinstance(value, Mapping) or value]
    parts = [_words(value) for value in given]
    parts += [f"{name}: {_words(value)}" for name, value in keywords.items()]
    return ", ".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        layout = "" if value.is_contiguous() else f" stride {tuple(value.stride())}"
        return f"{dtype}{list(value.shape)}{layout}"
    if isinstance(value, list | tuple):
        return f"({', '.join(_words(item) for item in value)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_words(item)}' for key, item in value.items())}}}"
    if isinstance(value, bool | str | type(None) | torch.dtype | Enum):
        return str(value) if isinstance(value, Enum) else repr(value)
    if is_dataclass(value) and not isinstance(value, type):
        held = ((each.name, getattr(value, each.name, None)) for each in fields(value))
        return f"{type(value).__name__}({', '.join(f'{n}={_words(v)}' for n, v in held)})"
    return type(value).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One argument of a signature: a tensor's dtype and shape, or a number's value."""

    name: str  # '' where it was given by place
    dtype: str = ""
    shape: tuple[int, ...] = ()
    value: float | int | bool | None = None


def forms_of(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Form]:
    """Return the arguments of a call without their values, but for numbers."""
    named = [("", value) for value in arguments] + list(keywords.items())
    forms = []
    for name, value in named:
        if isinstance(value, Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            forms.append(Form(name=name, dtype=dtype, shape=tuple(value.shape)))
        else:
            plain = value if isinstance(value, bool | int | float) else None
            forms.append(Form(name=name, value=plain))
    return forms


def first_dtype(arguments: Sequence[Any]) -> str:
    """Return the dtype of the first floating tensor, else of the first tensor, else ''."""
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    first = next(iter(floating or tensors), None)
    return "" if first is None else str(first.dtype).removeprefix("torch.")
