"""Arguments and results as a list of tensors and a template that puts them together again.

A template is JSON where the call is made of tensors, numbers, strings, lists, tuples and dicts:
then another process can repeat the call. Any other object is kept as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Template = list[Any]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that only this process can hold."""

    value: Any


def flatten(value: Any) -> tuple[list[Tensor], Template]:
    """Return the tensors in `value`, in order, and its template."""
    tensors: list[Tensor] = []
    return tensors, _template(value, tensors)


def _template(value: Any, tensors: list[Tensor]) -> Template:
    if isinstance(value, Tensor):
        tensors.append(value)
        return ["tensor", len(tensors) - 1]
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", repr(value)]
    if isinstance(value, bool | int | float | str | type(None)):
        return ["value", value]
    if isinstance(value, torch.dtype):
        return ["dtype", str(value).removeprefix("torch.")]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    if type(value) in (list, tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, [_template(item, tensors) for item in value]]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return ["dict", {key: _template(item, tensors) for key, item in value.items()}]
    if isinstance(value, tuple):  # a named tuple: its order is what counts
        return ["tuple", [_template(item, tensors) for item in value]]
    return ["object", Opaque(value)]


def rebuild(template: Template, tensors: Sequence[Tensor]) -> Any:
    """Return the value of a template with `tensors` in place."""
    kind, body = template
    match kind:
        case "tensor":
            return tensors[body]
        case "value":
            return body
        case "float":
            return float(body)
        case "dtype":
            return getattr(torch, body)
        case "device":
            return tensors[0].device if tensors else torch.device(body)
        case "list":
            return [rebuild(item, tensors) for item in body]
        case "tuple":
            return tuple(rebuild(item, tensors) for item in body)
        case "dict":
            return {key: rebuild(item, tensors) for key, item in body.items()}
        case _:
            return body.value


def portable(template: Template) -> bool:
    """Whether another process can hold everything in a template."""
    kind, body = template
    if kind in ("list", "tuple"):
        return all(portable(item) for item in body)
    if kind == "dict":
        return all(portable(item) for item in body.values())
    return bool(kind != "object")
