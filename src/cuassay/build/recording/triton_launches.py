"""Triton's launches on a GPU, as the recorder sees them: the wrapper and Triton stay as they are.

A compiled kernel's `run` is what Triton launches through, after arguments are bound, specialised
and compiled. It is replaced by one that describes the launch first: PTX out of the compiled
kernel, parameters as Triton's launcher packs them. A descriptor made on the host is kept in the
PTX machine's own form. Runs of the autotuner's benchmark are not launches of the program.
Interface: triton/compiler/compiler.py, triton/backends/nvidia/driver.py.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.build.machine.assumptions import assumed
from cuassay.build.recording.recorder import LaunchRecorder, SeenLaunch
from cuassay.build.triton_arguments import LEADING, address_of, descriptor, flat, packed
from cuassay.errors import MissingToolError

_SOURCE_BYTES = 1 << 20


@contextlib.contextmanager
def intercepted(recorder: LaunchRecorder) -> Iterator[None]:
    """Show the recorder every Triton launch of this process in this block.

    Raises MissingToolError where Triton is absent or launches in another way.
    """
    try:
        compiled = importlib.import_module("triton.compiler.compiler").CompiledKernel
        tuner = importlib.import_module("triton.runtime.autotuner").Autotuner
        own, bench = compiled.__dict__["run"], tuner.__dict__["_bench"]
    except (ImportError, AttributeError, KeyError) as error:
        raise MissingToolError(
            f"Triton's launches cannot be recorded ({type(error).__name__}: {error}); install "
            "triton 3.6"
        ) from None
    if not isinstance(own, property) or own.fget is None:
        raise MissingToolError("this Triton launches in an unknown way; install triton 3.6")
    launcher: Callable[[Any], Callable[..., Any]] = own.fget

    def run(self: Any) -> Callable[..., Any]:
        return functools.partial(_launch, recorder, self, launcher(self))

    @functools.wraps(bench)
    def unseen(self: Any, *arguments: Any, **options: Any) -> Any:
        with recorder.paused():
            return bench(self, *arguments, **options)

    compiled.run, tuner._bench = property(run), unseen
    try:
        yield
    finally:
        compiled.run, tuner._bench = own, bench


def _launch(recorder: LaunchRecorder, kernel: Any, go: Callable[..., Any], *given: Any) -> Any:
    if 0 in given[:3]:  # nothing is launched
        return go(*given)
    return recorder.launch(str(kernel.name), lambda: described(kernel, given), lambda: go(*given))


def described(kernel: Any, given: Sequence[Any]) -> SeenLaunch:
    """Return a launch of a compiled kernel as data. Raises MissingToolError where it has no form.

    `given` is what Triton hands to a launcher: grid, stream, function, metadata, hooks, and the
    arguments as the user gave them.
    """
    ptx = kernel.asm.get("ptx")
    if ptx is None:
        raise MissingToolError("its PTX was not kept; unset TRITON_STORE_BINARY_ONLY")
    metadata, signature = kernel.metadata, dict(kernel.src.signature)
    tiles = getattr(metadata, "tensordesc_meta", None) or ()
    values = list(_values(signature, given[LEADING:], tiles))
    found = packed(metadata, signature, given[:3], values)
    # The file that a kernel is written in, as far as it can be read
    function = getattr(getattr(kernel.src, "fn", None), "fn", None)
    try:
        path = Path(inspect.getsourcefile(function) or "")  # type: ignore[arg-type]
        if path.stat().st_size > _SOURCE_BYTES:
            sources = {}
        else:
            sources = {path.name: path.read_text(encoding="utf-8", errors="replace")}
    except (OSError, TypeError, ValueError):
        sources = {}
    return SeenLaunch(
        ptx=ptx if isinstance(ptx, str) else bytes(ptx).decode(),
        kernel=str(metadata.name),
        grid=found.grid,
        block=found.block,
        cluster=found.cluster,
        shared_bytes=found.shared_bytes,
        arguments=found.arguments,
        tensors=list(_tensors(signature, given[LEADING:])),
        scratch=found.scratch,
        sources=sources,
        assumes=assumed(str(kernel.asm.get("ttir") or "")),
    )


def _values(
    signature: Mapping[Any, Any], given: Sequence[Any], tiles: Sequence[Any]
) -> Iterator[Any]:
    """Yield arguments as parameters take them: descriptors in parts."""
    known = iter(tiles)
    for kind, value in zip(signature.values(), given, strict=True):
        if not str(kind).startswith("tensordesc"):
            yield value
            continue
        shape, strides = list(value.shape), list(value.strides)
        described_as, nan = next(known, None), getattr(value, "padding", "zero") == "nan"
        if described_as is None:
            yield [value.base, *shape, *strides, nan, *shape, *strides]
        else:
            nvidia = importlib.import_module("triton.backends.nvidia.driver")
            if described_as.get("fp4_padded"):
                raise MissingToolError("the PTX machine knows no tensor map of 4-bit elements")
            tile_map = descriptor(
                address_of(value.base),
                int(described_as["swizzle"]),
                int(described_as["elem_size"]),
                int(nvidia.TMA_DTYPE_DEVICE_TO_HOST[described_as["elem_type"]]),
                described_as["block_size"],
                list(value.shape),
                list(value.strides),
                int(nan),
            )
            yield [tile_map, *shape, *strides]


def _tensors(signature: Mapping[Any, Any], given: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors among arguments, by their parameters' names."""
    for name, value in zip(signature, given, strict=True):
        for one in flat([value]):
            tensor = one if hasattr(one, "untyped_storage") else getattr(one, "base", None)
            if hasattr(tensor, "untyped_storage"):
                yield str(name), tensor
