"""Calls with any arguments as calls on tensors and numbers alone, and their results as tensors.

A judged problem has flat inputs: tensors, and numbers that a call takes by themselves. Everything
else that stands in a call (None, strings, enums, dtypes, lists, dicts, named tuples, dataclasses,
objects) is written as source text that builds it again around the flat inputs, so that the
reference's process and the candidate's build the same call. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError

SCALARS = {bool: "bool", int: "int64", float: "float32"}
_DEPTH = 12
_LIBRARY_FOLDERS = ("site-packages", "dist-packages")

# What the generated modules begin with: objects made without their constructors.
PRELUDE = '''\
def _made(kind, fields):
    """Return an object of a class with these attributes; its constructor does not run."""
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _taken(value, steps):
    """Return what lies below a result: attributes, keys and positions; None where it is missing."""
    for kind, step in steps:
        try:
            value = getattr(value, step) if kind == "." else value[step]
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
    return value
'''


# How a function is called with arguments by name; it needs `inspect`.
CALL = '''\
def _call(function, arguments):
    """Call by position, and by name where the function says so or has other positions."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function(*arguments.values())
    kinds = {name: each.kind for name, each in parameters.items()}
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    rest = by_name[1] if inspect.Parameter.VAR_KEYWORD in kinds.values() else None
    if all(kinds.get(name, rest) in by_name for name in arguments):
        return function(**arguments)
    named = {k: v for k, v in arguments.items() if kinds.get(k) is by_name[1]}
    return function(*(v for k, v in arguments.items() if k not in named), **named)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One step into a result: `.` for an attribute, `[` for a key or position."""

    kind: str
    name: str | int


@dataclass(slots=True)
class Written:
    """A call as text: `leaves` are the flat inputs by name, `held` what stays as it is.

    `classes` are those that the text names, by their names there. With `reuse` a tensor of a
    known name is that input: of a second module, which takes the parameters of the first.
    `is_leaf` tells what stands for an input: a tensor, or a description of one.
    """

    leaves: dict[str, Any] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    classes: dict[str, type] = field(default_factory=dict)
    reuse: bool = False
    is_leaf: Callable[[object], bool] = field(default=lambda value: is_tensor(value))

    def argument(self, name: str, value: Any) -> str:
        """Return the expression of an argument; a number that stands alone is an input."""
        if type(value) in SCALARS:
            return self._leaf(name, value)
        return self._expression(name, value, depth=0)

    def nested(self, name: str, value: Any) -> str:
        """Return the expression of an argument in which only what `is_leaf` tells is an input."""
        return self._expression(name, value, depth=0)

    def module(self, value: Any) -> str:
        """Return the expression of a torch.nn.Module: parameters and buffers are inputs."""
        return self._object("module", value, depth=0)

    def _leaf(self, name: str, value: Any) -> str:
        plain = re.sub(r"\W+", "_", name).strip("_") or "x"
        for inside in ("module__parameters_", "module__buffers_", "module__modules_"):
            plain = plain.removeprefix(inside)
        for inside in ("__parameters_", "__buffers_", "__modules_"):
            plain = plain.replace(inside, "_")
        if self.reuse and plain in self.leaves:
            return plain
        unique, number = plain, 2
        while unique in self.leaves and self.leaves[unique] is not value:
            unique, number = f"{plain}_{number}", number + 1
        self.leaves[unique] = value
        return unique

    def _expression(self, name: str, value: Any, *, depth: int) -> str:
        if depth > _DEPTH:
            raise ProblemError(f"argument '{name}' is nested more than {_DEPTH} levels deep")
        if self.is_leaf(value):
            return self._leaf(name, value)
        inside = depth + 1
        match value:
            case enum.Enum():
                self._held(name, f"{type(value).__name__}.{value.name}")
                return f"{self._class(type(value), name)}[{value.name!r}]"
            case None | bool() | int() | float() | complex() | str() | bytes():
                if depth == 0 or isinstance(value, str | None):
                    self._held(name, repr(value))
                if isinstance(value, float) and not math.isfinite(value):
                    return f"float({str(value)!r})"
                return repr(value)
            case tuple() if hasattr(value, "_fields"):
                parts = [
                    f"{key}={self._expression(f'{name}.{key}', item, depth=inside)}"
                    for key, item in zip(value._fields, value, strict=True)
                ]
                return f"{self._class(type(value), name)}({', '.join(parts)})"
            case tuple() if type(value).__module__ == "torch":  # a torch.Size
                return self._object(name, value, depth=inside)
            case list() | tuple() | set() | frozenset():
                parts = [
                    self._expression(f"{name}[{number}]", item, depth=inside)
                    for number, item in enumerate(value)
                ]
                joined = ", ".join(parts)
                if isinstance(value, tuple):
                    return f"({joined}{',' if len(parts) == 1 else ''})"
                if isinstance(value, set | frozenset):
                    return f"{type(value).__name__}([{joined}])"
                return f"[{joined}]"
            case Mapping():
                pairs = [
                    f"{_key(name, key)}: {self._expression(f'{name}.{key}', item, depth=inside)}"
                    for key, item in value.items()
                ]
                return "{" + ", ".join(pairs) + "}"
            case _:
                return self._object(name, value, depth=inside)

    def _object(self, name: str, value: Any, *, depth: int) -> str:
        module = type(value).__module__.split(".")[0]
        if module == "torch" and type(value).__name__ in ("dtype", "device", "Size", "layout"):
            self._held(name, str(value))
            text = repr(value)
            return text if text.startswith("torch.") else f"torch.{text}"
        if inspect.isroutine(value) and module in ("builtins", "function"):
            where = getattr(value, "__module__", "") or ""
            if where.partition(".")[0] in ("torch", "math", "operator"):
                return f"importlib.import_module({where!r}).{value.__name__}"
        if not hasattr(value, "forward") and (callable(value) or module == "builtins"):
            raise ProblemError(
                f"argument '{name}' is a {type(value).__name__}, which another process cannot be "
                "given; call it inside the kernel and the reference, or pass tensors"
            )
        if dataclasses.is_dataclass(value):
            attributes = {
                each.name: getattr(value, each.name) for each in dataclasses.fields(value)
            }
        elif hasattr(value, "__dict__"):
            attributes = dict(vars(value))
        else:
            slots = [
                name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())
            ]
            attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        self._held(name, f"{type(value).__name__} with its fields")
        parts = [
            f"{key!r}: {self._expression(f'{name}.{key}', item, depth=depth)}"
            for key, item in attributes.items()
        ]
        return f"_made({self._class(type(value), name)}, {{{', '.join(parts)}}})"

    def _class(self, kind: type, name: str) -> str:
        if "<locals>" in kind.__qualname__ or "." in kind.__qualname__:
            raise ProblemError(
                f"argument '{name}' is a {kind.__qualname__}, expected a class at the top level "
                "of a file: another process has to build it"
            )
        for alias, known in self.classes.items():
            if known is kind:
                return alias
        alias = f"_{kind.__name__}_{len(self.classes)}"  # two files may use one name
        self.classes[alias] = kind
        return alias

    def _held(self, name: str, text: str) -> None:
        self.held.append(f"{name} = {text[:80]}")


def _key(name: str, key: object) -> str:
    if not isinstance(key, str | int | bool):
        raise ProblemError(
            f"argument '{name}' is a dict with a {type(key).__name__} as key, expected strings or "
            "integers"
        )
    return repr(key)


def outputs(
    result: object, *, is_leaf: Callable[[object], bool] | None = None
) -> Iterator[tuple[str, tuple[PathStep, ...], Any]]:
    """Yield name, steps and value of every tensor or number in a result, in order.

    `is_leaf` tells a tensor, or what stands for one. None is passed over. Raises ProblemError for
    what is neither tensor, number nor container.
    """
    yield from _outputs(result, "", (), is_leaf or is_tensor)


def _outputs(
    value: Any, name: str, steps: tuple[PathStep, ...], is_leaf: Callable[[object], bool]
) -> Iterator[tuple[str, tuple[PathStep, ...], Any]]:
    if len(steps) > _DEPTH:
        raise ProblemError(f"output '{name}' is nested more than {_DEPTH} levels deep")
    if is_leaf(value) or type(value) in SCALARS:
        yield name, steps, value
    elif value is not None:
        for step, item in _items(value):
            plain = re.sub(r"\W+", "_", str(step.name))
            yield from _outputs(item, f"{name}_{plain}" if name else plain, (*steps, step), is_leaf)


def _items(value: Any) -> list[tuple[PathStep, Any]]:
    """Return what a container of a result holds, with the step to each. Raises ProblemError."""
    if isinstance(value, Mapping):
        return [(PathStep(kind="[", name=key), item) for key, item in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(PathStep(kind=".", name=key), getattr(value, key)) for key in value._fields]
    if isinstance(value, list | tuple):
        return [(PathStep(kind="[", name=number), item) for number, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [each.name for each in dataclasses.fields(value)]
        return [(PathStep(kind=".", name=name), getattr(value, name)) for name in fields]
    raise ProblemError(
        f"the reference returned a {type(value).__name__}, expected tensors, numbers, or "
        "tuples, lists, dicts and dataclasses of them"
    )


def tensors_in(
    value: Any, steps: tuple[PathStep, ...] = ()
) -> Iterator[tuple[tuple[PathStep, ...], Any]]:
    """Yield steps and value of every tensor in the containers of a call, in order."""
    if is_tensor(value):
        yield steps, value
    elif len(steps) <= _DEPTH:
        with contextlib.suppress(ProblemError):  # no container
            for step, item in _items(value):
                yield from tensors_in(item, (*steps, step))


def output_text(steps: Sequence[PathStep], whole: str = "_result") -> str:
    """Return the expression that takes one value from `whole`."""
    told = ", ".join(f"({step.kind!r}, {step.name!r})" for step in steps)
    return f"_taken({whole}, [{told}])" if steps else whole


def is_tensor(value: object) -> bool:
    """Whether a value is a torch.Tensor; torch is not loaded for the question."""
    return (
        hasattr(value, "detach") and hasattr(value, "shape") and hasattr(value, "untyped_storage")
    )


def library_import(kind: type, alias: str) -> str:
    """Return the import of a library's class as `alias`; empty for one of the user's own files."""
    module = importlib.import_module(kind.__module__)
    file = getattr(module, "__file__", None)
    inside = file is None or any(part in _LIBRARY_FOLDERS for part in Path(file).parts)
    inside = inside or Path(file or "").is_relative_to(Path(inspect.__file__).parent)
    return f"from {kind.__module__} import {kind.__name__} as {alias}" if inside else ""
