"""Model objects to JSON and back, by their type annotations. Unions carry a "type" tag.

Only dataclasses of the model packages, enums, paths and plain containers are understood; what
is read back is checked field by field, so a truncated or edited file gives one clear error.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cuassay.errors import UsageError
from cuassay.model.device import Device

T = TypeVar("T")
_PLAIN = frozenset((str, int, bool, type(None)))  # written as they are
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(value: object) -> Any:
    """Return `value` as plain JSON data; non-finite floats become {"float": "NaN"} and so on."""
    kind: Any = type(value)
    return value if kind in _PLAIN else _writer(kind)(value)


def from_json(kind: Any, data: Any) -> Any:
    """Return `data` as a value of the annotation `kind`: a dataclass, union, enum or container.

    Raises UsageError where the data does not fit.
    """
    return _reader(kind)(data)


def dumps(value: object, *, indent: int | None = None) -> str:
    """Return `value` as JSON text."""
    return json.dumps(to_json(value), indent=indent, allow_nan=False)


def loads(kind: type[T] | Any, text: str) -> Any:
    """Return the value of annotation `kind` written in `text`. Raises UsageError."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"not valid JSON: {error}") from None
    return from_json(kind, data)


@functools.cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """Return what writes values of a type: what has to be known of the type is found once."""
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
        return lambda value: {
            "type": kind.__name__,
            **{name: to_json(getattr(value, name)) for name in names},
        }
    if issubclass(kind, enum.Enum):
        return lambda value: value.value
    if issubclass(kind, Path):
        return str
    if issubclass(kind, Mapping):
        return lambda value: {str(key): to_json(item) for key, item in value.items()}
    if issubclass(kind, list | tuple):
        return lambda value: [to_json(item) for item in value]
    if issubclass(kind, float):
        return _float
    if issubclass(kind, int | str):
        return lambda value: value
    raise TypeError(f"{kind.__name__} is not a model value")


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return {"float": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return what reads values of an annotation: what has to be known of it is found once."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return functools.partial(_union, arguments)
    if origin is tuple:
        return functools.partial(_tuple, arguments)
    if origin is not None and issubclass(origin, Mapping):
        return lambda data: {
            key: from_json(arguments[1], item) for key, item in _dict(data).items()
        }
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return lambda data: _dataclass(kind, _dict(data))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return functools.partial(_member, kind)
    return functools.partial(_plain, kind)


def _tuple(arguments: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise UsageError(f"expected a JSON array, got {type(data).__name__}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(from_json(arguments[0], item) for item in data)
    if len(arguments) != len(data):
        raise UsageError(f"expected {len(arguments)} items, got {len(data)}")
    return tuple(from_json(kind, item) for kind, item in zip(arguments, data, strict=True))


def _member(kind: type[enum.Enum], data: Any) -> enum.Enum:
    try:
        return kind(data)
    except ValueError:
        legal = ", ".join(str(member.value) for member in kind)
        raise UsageError(f"{kind.__name__} is one of {legal}, got {data!r}") from None


def learn(kinds: Sequence[Any]) -> None:
    """Find out now what reading values of these annotations asks of their types the first time.

    Where a process is forked for every value, that takes each of them milliseconds.
    """
    known: set[Any] = set()
    asked = list(kinds)
    while asked:
        kind = asked.pop()
        if kind in known or kind is Ellipsis:
            continue
        known.add(kind)
        _reader(kind)
        asked += typing.get_args(kind)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            hints = typing.get_type_hints(kind)
            asked += [hints[name] for name in _fields(kind)]


def _dict(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UsageError(f"expected a JSON object, got {type(data).__name__}")
    return data


@functools.cache
def _fields(kind: type) -> Mapping[str, Callable[[Any], Any]]:
    """Return what reads each field of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}


def _dataclass(kind: type, data: dict[str, Any]) -> Any:
    tag = data.get("type", kind.__name__)
    if tag != kind.__name__:
        raise UsageError(f"expected a {kind.__name__}, got a {tag}")
    fields = _fields(kind)
    unknown = set(data) - set(fields) - {"type"}
    if unknown:
        raise UsageError(f"{kind.__name__} has no field '{sorted(unknown)[0]}'")
    try:
        return kind(**{k: fields[k](v) for k, v in data.items() if k in fields})
    except TypeError as error:
        raise UsageError(f"{kind.__name__} is incomplete: {error}") from None


def _union(members: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in members:
        return None
    tag = data.get("type") if isinstance(data, dict) else None
    for member in members:
        if dataclasses.is_dataclass(member) and getattr(member, "__name__", "") == tag:
            return from_json(member, data)
    plain = [m for m in members if m is not type(None) and not dataclasses.is_dataclass(m)]
    for member in plain:
        # Whether plain data is exactly of a union's member type (bool is no int here)
        if isinstance(data, dict) and "float" in data:
            fits = member is float
        elif isinstance(data, list):
            fits = typing.get_origin(member) is tuple
        elif isinstance(member, type) and issubclass(member, enum.Enum):
            fits = type(data) is str
        else:
            is_text = member is Path or (isinstance(member, type) and issubclass(member, str))
            fits = type(data) is (str if is_text else member)
        if fits:
            return from_json(member, data)
    if float in plain and type(data) is int:  # an int where only floats are declared
        return from_json(float, data)
    names = ", ".join(getattr(member, "__name__", str(member)) for member in members)
    raise UsageError(f"expected one of {names}, got {json.dumps(data)[:80]}")


def _plain(kind: Any, data: Any) -> Any:
    if kind is Path or kind is Device:
        return kind(data)
    if kind is float:
        if isinstance(data, dict) and data.get("float") in _NON_FINITE:
            return _NON_FINITE[data["float"]]
        if isinstance(data, int | float) and not isinstance(data, bool):
            return float(data)
    elif kind is object or kind is Any or type(data) is kind:
        return data
    raise UsageError(f"expected {getattr(kind, '__name__', kind)}, got {json.dumps(data)[:80]}")
