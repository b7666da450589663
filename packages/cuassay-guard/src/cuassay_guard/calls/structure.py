"""Arguments and results as a list of tensors and a template that puts them together again.

A template is JSON where the call is made of tensors, numbers, strings, lists, tuples, dicts, and
of named tuples, dataclasses and enums that a module defines at its top level: then another process
can repeat the call. Any other object is kept as it is.
"""

from __future__ import annotations

import enum
import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

Template = list[Any]


@dataclass(frozen=True, slots=True)
class LocalObject:
    """A value that only this process can hold."""

    value: Any


def flatten(value: Any) -> tuple[list[Tensor], Template]:
    """Return the tensors in `value`, in order, and its template."""
    tensors: list[Tensor] = []
    return tensors, _template(value, tensors)


def flatten_call(
    arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Tensor], Template]:
    """Return the tensors of a call, and a template that `call` makes it from."""
    if not keywords:
        return flatten(tuple(arguments))
    tensors, template = flatten([tuple(arguments), dict(keywords)])
    return tensors, ["call", template[1]]


def call_with(fn: Callable[..., Any], template: Template, tensors: Sequence[Tensor]) -> Any:
    """Call a function with the arguments of a template of `flatten_call`."""
    if template[0] != "call":
        return fn(*rebuild(template, tensors))
    arguments, keywords = (rebuild(part, tensors) for part in template[1])
    return fn(*arguments, **keywords)


def places_of(template: Template) -> list[Template]:
    """Return the templates of the arguments that a call gives by place."""
    found: list[Template] = template[1][0][1] if template[0] == "call" else template[1]
    return found


def _template(value: Any, tensors: list[Tensor]) -> Template:
    if isinstance(value, Tensor):
        tensors.append(value)
        return ["tensor", len(tensors) - 1]
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", repr(value)]
    if isinstance(value, enum.Enum):
        return _of_class(type(value), "enum", value.name)
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
    if isinstance(value, tuple):
        items = ["tuple", [_template(item, tensors) for item in value]]
        return _of_class(type(value), "named", items) if hasattr(value, "_make") else items
    if is_dataclass(value) and not isinstance(value, type):
        held = {each.name: getattr(value, each.name, None) for each in fields(value)}
        body = {name: _template(item, tensors) for name, item in held.items()}
        return _of_class(type(value), "dataclass", ["dict", body])
    return ["object", LocalObject(value)]


def _of_class(kind: type, form: str, body: Any) -> Template:
    """Return a node of a class; one that another process cannot import is held as it is."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    importable = found is kind and kind.__module__ != "__main__"
    place = f"{kind.__module__}:{kind.__qualname__}" if importable else LocalObject(kind)
    return [form, [place, body]]


def _class(place: str | LocalObject) -> Any:
    """Return the class of a node. Raises what importing its module raises."""
    if isinstance(place, LocalObject):
        return place.value
    module, _, qualname = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def rebuild(template: Template, tensors: Sequence[Tensor]) -> Any:  # noqa: PLR0911  # a line a kind of value
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
        case "enum":
            return _class(body[0])[body[1]]
        case "named":
            return _class(body[0])._make(rebuild(body[1], tensors))
        case "dataclass":
            # As it was, not as its constructor would make it from its fields.
            made = object.__new__(_class(body[0]))
            for name, item in rebuild(body[1], tensors).items():
                object.__setattr__(made, name, item)
            return made
        case _:
            return body.value


def portable(template: Template) -> bool:
    """Whether another process can hold everything in a template."""
    kind, body = template
    if kind in ("list", "tuple", "call"):
        return all(portable(item) for item in body)
    if kind == "dict":
        return all(portable(item) for item in body.values())
    if kind == "enum":
        return isinstance(body[0], str)
    if kind in ("named", "dataclass"):
        return isinstance(body[0], str) and portable(body[1])
    return bool(kind != "object")
