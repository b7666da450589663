"""`cuassay.guard(...)`: a kernel under guard."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from cuassay.errors import UsageError
from cuassay_guard.config import Enforcement, OracleChoice, configured
from cuassay_guard.fleet import status
from cuassay_guard.trusted import check_signatures, trusted
from cuassay_guard.watch import LOG, Watch
from cuassay_guard.wrap import Guarded

Kernel = Callable[..., Any]


@overload
def guard(
    kernel: Kernel, *, trusted: Kernel | None = None, problem: object = None, **options: Any
) -> Guarded: ...
@overload
def guard(
    *, trusted: Kernel | None = None, problem: object = None, **options: Any
) -> Callable[[Kernel], Guarded]: ...
def guard(
    kernel: Kernel | None = None,
    *,
    trusted: Kernel | None = None,
    problem: object = None,
    **options: Any,
) -> Guarded | Callable[[Kernel], Guarded]:
    """Return `kernel` under guard; without a kernel, a decorator.

    `trusted` is the operator that serves when the kernel must not, and that calls are compared
    with; `problem` names what both compute (a catalogue name, a path, a function decorated with
    `cuassay.problem`): its reference is the truth, and the trusted operator where none is given.
    Options are the fields of GuardConfig: `sample`, `max_overhead`, `on_violation`, ...
    $CUASSAY_GUARD (off, observe, enforce) overrides `mode`. Raises UsageError, UnknownNameError
    or ProblemError for anything off; a guarded call raises only what the kernel raises.
    """
    if kernel is None:
        return lambda one: guard(one, trusted=trusted, problem=problem, **options)
    return _guarded(kernel, trusted, problem, options)


def _guarded(
    kernel: Kernel, trust: Kernel | None, problem: object, options: dict[str, Any]
) -> Guarded:
    if not callable(kernel):
        raise UsageError(f"guard was given {kernel!r}, expected a function to guard")
    config = configured(options)
    found = trusted(trust, problem)
    check_signatures(kernel, found, config.mutates)
    name = config.name or getattr(kernel, "__name__", type(kernel).__name__)
    if config.oracle is OracleChoice.PROCESS and found.where is None:
        raise UsageError(
            f"oracle='process', but the trusted operator cannot be imported by another process: "
            f"{found.unreachable}; move it to the top level of a module, name a problem, or use "
            f"oracle='auto'"
        )
    if found.where is None and config.mode is not Enforcement.OFF:
        LOG.info(
            "guarded kernel %s: the trusted operator cannot be imported by the oracle's process "
            "(%s); calls are judged in this one, which sees less of float32",
            name,
            found.unreachable,
        )
    # What identifies a kernel: its name, and its source where there is one.
    parts = [getattr(kernel, "__module__", "") or "", getattr(kernel, "__qualname__", "") or ""]
    try:
        parts.append(inspect.getsource(kernel))
    except (TypeError, OSError):
        parts.append(type(kernel).__name__)
    watch = Watch(config, found, name, identity="\n".join(parts), source=_source(kernel))
    status.begin()
    return Guarded(kernel, watch)


def _source(kernel: Kernel) -> str:
    """Return FILE.py::FUNCTION of a function that stands at the top of a file, else ''."""
    name = getattr(kernel, "__qualname__", "")
    try:
        file = inspect.getsourcefile(inspect.unwrap(kernel))
    except TypeError:
        return ""
    return f"{file}::{name}" if file and name and "." not in name else ""
