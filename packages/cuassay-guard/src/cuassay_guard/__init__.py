"""The production guard: watches a kernel that runs, falls back, keeps the evidence.

`cuassay.guard(kernel, trusted=...)` is this package called: it is a module and a function at
once, so that `import cuassay_guard.prometheus` does not shadow the function. Importing it loads
no torch; the first call does.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuassay_guard.config import GuardConfig
    from cuassay_guard.entry import guard
    from cuassay_guard.events import Violation
    from cuassay_guard.modules import guard_module
    from cuassay_guard.wrap import Guarded

__all__ = ["GuardConfig", "Guarded", "Violation", "guard", "guard_module"]

_HOMES = {
    "GuardConfig": "cuassay_guard.config",
    "Guarded": "cuassay_guard.wrap",
    "Violation": "cuassay_guard.events",
    "guard": "cuassay_guard.entry",
    "guard_module": "cuassay_guard.modules",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cuassay_guard' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


class _Callable(types.ModuleType):
    """A module that is called: `cuassay.guard(kernel, trusted=...)`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from cuassay_guard.entry import guard

        return guard(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
