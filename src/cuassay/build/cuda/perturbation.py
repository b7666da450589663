"""Runs a candidate's own kernels with random pauses in them, for a while and then no more.

Raw CUDA kernels are loaded from PTX with pauses, assembled by the driver. What Triton compiled is
assembled anew from its PTX with pauses, and what it had not compiled so far is compiled with pauses
put in between its PTX and ptxas. Everything else that runs is left as it is. Both last
as long as `perturbed` does: compiled kernels and caches on disk from before are put back.
The candidate shares this process and can undo all of it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuassay.build.cuda.delays import delayed
from cuassay.build.cuda.driver import Launcher
from cuassay.build.recording.ledger import LEDGER
from cuassay.errors import CuassayError

_PATCHED = "__cuassay_delays__"
_CACHE = "TRITON_CACHE_DIR"


@dataclass(slots=True)
class Perturbation:
    """What `perturbed` did: kernels that got pauses and how many places have one.

    `refused` says why kernels were left as they are, where an assembler did not take them.
    """

    seed: int
    kernels: dict[str, int] = field(default_factory=dict)
    refused: str = ""
    _handles: dict[tuple[str, ...], list[int]] = field(default_factory=dict)

    def rewrite(self, ptx: str) -> str:
        """Return a module with pauses, and note it; unchanged where there is no place for one."""
        found = delayed(ptx, self.seed)
        for kernel in found.kernels:
            self.kernels[kernel] = found.places
        return found.ptx

    def handles(
        self, launcher: Launcher, names: Sequence[str], ptx: Callable[[], str]
    ) -> list[int] | None:
        """Return handles of raw kernels loaded with pauses; None where they cannot be had."""
        key = tuple(names)
        if key not in self._handles and not self.refused:
            try:
                module = self.rewrite(ptx()).encode() + b"\0"
                self._handles[key] = [launcher.function(module, name) for name in names]
            except (RuntimeError, CuassayError) as error:
                self.refuse(error)
        return self._handles.get(key)

    def refuse(self, error: Exception) -> None:
        """Note that kernels stay as they are, since an assembler takes no pauses."""
        self.kernels.clear()
        self.refused = f"{type(error).__name__}: {error}"[:200]


_active: Perturbation | None = None


def active() -> Perturbation | None:
    """Return the perturbation that kernels are launched under now."""
    return _active


@contextlib.contextmanager
def perturbed(seed: int) -> Iterator[Perturbation]:
    """Let the candidate's own kernels run with the pauses that `seed` draws."""
    global _active
    before, _active = _active, Perturbation(seed=seed)
    try:
        with _recompiled():
            yield _active
    finally:
        _active = before


@contextlib.contextmanager
def _recompiled() -> Iterator[None]:
    """Make the candidate's Triton kernels new ones, with nothing kept on disk."""
    functions = LEDGER.functions()
    if not functions or not _patch_compiler():
        yield
        return
    kept = [(function, function.device_caches) for function in functions]
    cache, folder = os.environ.get(_CACHE), tempfile.mkdtemp(prefix="delays-")
    try:
        with _caching_in(folder):
            for function, caches in kept:
                paused: defaultdict[Any, Any] = defaultdict(function.create_binder)
                for device, made in caches.items():
                    if isinstance(made, tuple) and made and isinstance(made[0], dict):
                        paused[device] = (_Reassembled(made[0], cache), *made[1:])
                function.device_caches = paused
            yield
    finally:
        for function, caches in kept:
            function.device_caches = caches
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _caching_in(folder: str | None) -> Iterator[None]:
    """Let Triton keep what it makes in a folder, None for its own choice."""
    before = os.environ.pop(_CACHE, None)
    if folder is not None:
        os.environ[_CACHE] = folder
    try:
        yield
    finally:
        os.environ.pop(_CACHE, None)
        if before is not None:
            os.environ[_CACHE] = before


class _Reassembled(dict[Any, Any]):
    """A device's compiled kernels, each assembled anew when it is first looked up.

    The launcher, a C extension that Triton builds for a kernel's signature, is found in the folder
    that was Triton's `cache` before. A kernel that does not look as expected is not found: then
    Triton compiles it anew.
    """

    def __init__(self, before: dict[Any, Any], cache: str | None) -> None:
        super().__init__()
        self._before, self._cache = before, cache

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self and key in self._before:
            with contextlib.suppress(Exception):
                kernel = self._before[key]
                compiler: Any = importlib.import_module("triton.compiler.compiler")
                backend = compiler.make_backend(kernel.metadata.target)
                # The options of a compilation are among its metadata.
                cubin = backend.make_cubin(
                    kernel.asm["ptx"],
                    kernel.metadata._asdict(),
                    kernel.metadata,
                    kernel.metadata.target.arch,
                )
                made = copy.copy(kernel)
                made.kernel, made.module, made.function, made._run = cubin, None, None, None
                with _caching_in(self._cache):
                    made._init_handles()
                self[key] = made
        return super().get(key, default)


def _patch_compiler() -> bool:
    """Put `rewrite` in front of Triton's assembler, once; False where that is not known here."""
    try:
        kind: Any = importlib.import_module("triton.backends.nvidia.compiler").CUDABackend
        assemble: Callable[..., Any] = kind.make_cubin
    except (ImportError, AttributeError):
        return False
    if hasattr(kind, _PATCHED):
        return True

    @functools.wraps(assemble)
    def with_pauses(self: Any, src: Any, *arguments: Any, **options: Any) -> Any:
        now = active()
        if now is None or not isinstance(src, str):
            return assemble(self, src, *arguments, **options)
        try:
            return assemble(self, now.rewrite(src), *arguments, **options)
        except Exception as error:  # an assembler that takes no pauses: the kernel as it was
            now.refuse(error)
            return assemble(self, src, *arguments, **options)

    kind.make_cubin = with_pauses
    setattr(kind, _PATCHED, True)
    return True
