"""How runtime functions are compiled: numba, cached in ptxsan's own folder.

`native` compiles helpers; `export` also gives a function a C address under the name by which
compiled kernels call it. numba's cache looks at one file only, so that a change in a helper would
leave its callers stale: the folder's name is a digest of every source of the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from ptxsan import home
from ptxsan.runtime import warming

F = TypeVar("F", bound=Callable[..., Any])
_EXPORTS: dict[str, tuple[str, Callable[..., Any]]] = {}
_HELPERS: list[Any] = []
_ALIVE: list[Any] = []
_config: Any = numba.config
_SOURCES = ("runtime", "numerics")
_PLAIN = ("symbols.py", "warming.py", "prebuilt.py")  # nothing of them is compiled


@cache
def cache_folder() -> Path:
    """Return the folder of the machine code of these sources."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256(numba.__version__.encode())
    for name in _SOURCES:
        for file in sorted((root / name).rglob("*.py")):
            if file.name not in _PLAIN:
                digest.update(file.read_bytes())
    return home.runtime_dir() / digest.hexdigest()[:20]


@contextmanager
def own_cache() -> Iterator[None]:
    """Compile inside with numba's cache in ptxsan's folder."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(cache_folder())
    try:
        with warming.saving_in_turn():
            yield
    finally:
        _config.CACHE_DIR = before


def native(function: F) -> F:
    """Compile a helper of the runtime; it is inlined where LLVM likes."""
    with own_cache():
        decorate = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)
        compiled = decorate(function)
    _HELPERS.append(compiled)
    return cast(F, compiled)


def export(signature: str, name: str = "") -> Callable[[F], F]:
    """Compile a function that kernels call by `name` (default: its own), with a C signature."""

    def register(function: F) -> F:
        _EXPORTS[name or function.__name__] = (signature, function)
        return native(function)

    return register


@cache
def address(name: str) -> int | None:
    """Return the address of an exported function, compiled on first use; None if unknown."""
    if name not in _EXPORTS:
        return None
    signature, function = _EXPORTS[name]
    with own_cache():
        compiled: Any = numba.cfunc(signature, cache=True, error_model="numpy")(function)
    _ALIVE.append(compiled)
    return int(compiled.address)


def declared(name: str) -> tuple[str, Callable[..., Any]]:
    """Return the signature and the Python function of an exported function."""
    return _EXPORTS[name]


def exported() -> tuple[str, ...]:
    """Return the names of every exported function."""
    return tuple(_EXPORTS)


def helpers() -> tuple[Any, ...]:
    """Return every function that `native` has compiled or will compile, as numba's dispatcher."""
    return tuple(_HELPERS)
