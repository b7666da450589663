"""Decide whether a GPU kernel may ship.

`cuassay.check("kernel.py", problem="rmsnorm")` returns a Verdict; `cuassay.assert_correct` raises
an AssertionError that tells the whole story. Importing this package loads neither torch nor
numpy: every public name is fetched when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuassay import errors
    from cuassay.api import CuassayAssertionError, assert_correct, check, load
    from cuassay.formats.native.declaration import problem, scalar, tensor
    from cuassay.launches import record_launches
    from cuassay.model import domain as domains
    from cuassay.model.candidate import Candidate
    from cuassay.model.case import Case
    from cuassay.model.outcome import Finding
    from cuassay.model.problem import Problem, Tolerance
    from cuassay.model.verdict import Decision, Profile, Verdict
    from cuassay.testing import bounds
    from cuassay.verifier import Result, Verifier, verify
    from cuassay_guard import guard, guard_module

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "Case",
    "CuassayAssertionError",
    "Decision",
    "Finding",
    "Problem",
    "Profile",
    "Result",
    "Tolerance",
    "Verdict",
    "Verifier",
    "__version__",
    "assert_correct",
    "bounds",
    "check",
    "domains",
    "errors",
    "guard",
    "guard_module",
    "load",
    "problem",
    "record_launches",
    "scalar",
    "tensor",
    "verify",
]

_HOMES = {
    "Candidate": "cuassay.model.candidate",
    "Case": "cuassay.model.case",
    "CuassayAssertionError": "cuassay.api",
    "Decision": "cuassay.model.verdict",
    "Finding": "cuassay.model.outcome",
    "Problem": "cuassay.model.problem",
    "Profile": "cuassay.model.verdict",
    "Result": "cuassay.verifier",
    "Tolerance": "cuassay.model.problem",
    "Verdict": "cuassay.model.verdict",
    "Verifier": "cuassay.verifier",
    "assert_correct": "cuassay.api",
    "bounds": "cuassay.testing",
    "check": "cuassay.api",
    "guard_module": "cuassay.guard",
    "load": "cuassay.api",
    "problem": "cuassay.formats.native.declaration",
    "record_launches": "cuassay.launches",
    "scalar": "cuassay.formats.native.declaration",
    "tensor": "cuassay.formats.native.declaration",
    "verify": "cuassay.verifier",
}
_MODULES = {
    "domains": "cuassay.model.domain",
    "errors": "cuassay.errors",
    "guard": "cuassay.guard",  # a module that is called
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'cuassay' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
