"""The trusted operator: how it is called here, and how another process can load it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from cuassay.errors import UsageError
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem

Call = Callable[..., Any]


@runtime_checkable
class _Decorated(Protocol):
    __cuassay_problem__: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """How another process finds a function: a problem's name, or module and qualified name."""

    problem: str = ""
    module: str = ""
    qualname: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedOperator:
    """The operator that decides.

    `call` runs here. `where` lets the oracle's process load the truth (the problem's reference
    where there is one); `unreachable` says why it cannot, else ''.
    """

    call: Call
    where: Where | None
    unreachable: str
    problem: Problem | None = None

    @property
    def accumulation(self) -> DType:
        """The declared precision of reductions."""
        return self.problem.accumulation if self.problem else DType.FLOAT32

    @property
    def precision(self) -> Precision | None:
        """The policy that the problem declares; None where the types of a call decide."""
        return self.problem.precision if self.problem else None

    def names(self, count: int) -> list[str]:
        """Return the names of `count` outputs."""
        known = [spec.name for spec in self.problem.outputs] if self.problem else []
        plain = ["out"] if count == 1 else [f"out{index}" for index in range(count)]
        return known[:count] + plain[len(known) :]


def trusted(call: Call | None, problem: object) -> TrustedOperator:
    """Return the trusted operator from what `guard` was given.

    Raises UsageError where there is none, ProblemError or UnknownNameError for the problem.
    """
    name, found = _problem(problem if problem is not None else call)
    if call is None:
        if found is None:
            raise UsageError(
                "guard needs a trusted operator to compare with: pass trusted=FUNCTION, or "
                "problem=NAME to use that problem's reference"
            )
        from cuassay.formats.execute import load_reference

        call = load_reference(found).call
    if not callable(call):
        raise UsageError(f"trusted is {call!r}, expected a function")
    if found is not None:
        return TrustedOperator(call=call, where=Where(problem=name), unreachable="", problem=found)
    where, why = located(call)
    return TrustedOperator(call=call, where=where, unreachable=why)


def _problem(value: object) -> tuple[str, Problem | None]:
    """Return a problem and how another process names it."""
    if isinstance(value, str):
        from cuassay.formats import load_problem

        return value, load_problem(value)
    if isinstance(value, _Decorated):
        value = value.__cuassay_problem__
    if not isinstance(value, Problem):
        if value is None or callable(value):
            return "", None
        raise UsageError(f"problem is {value!r}, expected a problem's name, path or Problem")
    if value.origin == "native":
        return f"{value.reference.path}:{value.reference.function}", value
    if value.path is None:
        raise UsageError(f"problem '{value.name}' was not read from a file; pass its path")
    return str(value.path), value


def located(call: Call) -> tuple[Where | None, str]:
    """Return where another process finds a function, or why it cannot."""
    module, qualname = getattr(call, "__module__", None), getattr(call, "__qualname__", "")
    if not module or not qualname:
        return None, "it has no module and name"
    if module == "__main__":
        return None, "it is defined in __main__, which another process must not run again"
    if "<" in qualname:
        return None, f"'{qualname}' stands inside a function"
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if found is not call and getattr(found, "kernel", None) is not call:
        return None, f"'{module}.{qualname}' is another object"
    return Where(module=module, qualname=qualname), ""


def import_root(module: str, file: str) -> str:
    """Return the folder on sys.path from which `module` was imported, '' if its name says none."""
    path, parts = Path(file), module.split(".")
    if path.stem == "__init__":
        path = path.parent
    named = [*path.parent.parts, path.stem][-len(parts) :] if file and module else []
    return str(path.parents[len(parts) - 1]) if named == parts else ""


def import_operator(where: Where) -> Call:
    """Return the function; for the oracle's process. Raises what importing it raises."""
    if where.problem:
        from cuassay.formats import load_problem
        from cuassay.formats.execute import load_reference

        return load_reference(load_problem(where.problem)).call
    found: Any = importlib.import_module(where.module)
    for part in where.qualname.split("."):
        found = getattr(found, part)
    call: Call = found
    return call


def check_signatures(kernel: Call, trust: TrustedOperator, mutates: Sequence[str]) -> None:
    """Raise UsageError where the trusted operator cannot be called like the kernel.

    Functions without a signature (builtins, compiled operators) are compared at the first call.
    """
    mine, theirs = _signature(kernel), _signature(trust.call)
    if mine is not None and theirs is not None:
        one, two = _shape(mine), _shape(theirs)
        if one is not None and two is not None and not _same(one, two):
            raise UsageError(
                f"the trusted operator takes {theirs}, the kernel {mine}; expected the same "
                f"parameters in the same order, so that either can serve a call"
            )
    for name in mutates:
        if mine is not None and name not in mine.parameters:
            raise UsageError(
                f"mutates names '{name}', but the kernel takes {mine}; name its parameters"
            )


def _signature(call: Call) -> inspect.Signature | None:
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):
        return None


def _shape(signature: inspect.Signature) -> list[inspect.Parameter] | None:
    """Return the parameters, or None where any number of them is taken."""
    found = list(signature.parameters.values())
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return None if any(p.kind in variadic for p in found) else found


def _same(one: list[inspect.Parameter], two: list[inspect.Parameter]) -> bool:
    if len(one) != len(two):
        return False
    keyword = inspect.Parameter.KEYWORD_ONLY
    return all(
        a.kind == b.kind and (a.kind is not keyword or a.name == b.name)
        for a, b in zip(one, two, strict=True)
    )


def normal_call(
    call: Call, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return a call's arguments by place, defaults filled in, and those that go by name alone."""
    signature = _signature(call) if keywords else None
    if signature is None:
        return list(arguments), dict(keywords)
    bound = signature.bind(*arguments, **keywords)
    bound.apply_defaults()
    return list(bound.args), dict(bound.kwargs)


def positional(call: Call, arguments: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
    """Return a call's arguments in the order of the parameters, defaults filled in."""
    if not keywords:
        return list(arguments)
    signature = _signature(call)
    if signature is None:
        return [*arguments, *keywords.values()]
    bound = signature.bind(*arguments, **keywords)
    bound.apply_defaults()
    return [*bound.args, *bound.kwargs.values()]
