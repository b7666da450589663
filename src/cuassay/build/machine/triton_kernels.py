"""Triton kernels of an unmodified wrapper, compiled by Triton itself and launched in the machine.

A stand-in for Triton's driver answers what its runtime asks: the target, the device's size, how
a compiled kernel is loaded and launched. Everything before that is Triton's own: the binding of
arguments, specialisation, heuristics, autotuning (its first configuration is taken: nothing can
be timed), scratch memory and host-side tensor descriptors. The last stage, ptxas, is left out:
what is launched is the PTX. Interface: triton/backends/driver.py, triton/runtime/jit.py.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from cuassay import settings
from cuassay.build.machine.assumptions import assumed
from cuassay.build.machine.launch import not_covered
from cuassay.build.triton_arguments import LEADING, descriptor, packed
from cuassay.build.untraced import untraced
from cuassay.errors import MissingToolError, missing_extra

_PATCHED = "__cuassay_ptx__"
_ASSUMES = "cuassay_assumes"
# Bytes that a block may take. What the PTX is made for is the least that the sources ask for, not
# the GPU that they were written for: that of the facade, sm_90.
_SHARED_LIMIT = 232448
_REAL_FUNCTIONS = Path(__file__).with_name("real_functions.ll")
_BF16_SUM = ("atomic_add", "bfloat16")
_NEEDS_100 = ("tcgen05", "nvidia.blackwell", "nvidia import blackwell")
_NEEDS_90 = ("wgmma", "cp.async.bulk", "mbarrier", "warp_specialize=True", "tma",
             "warpgroup", "CopyBulk")  # fmt: skip
# For sm_89 Triton rounds float32 to fp8 by way of f16, which it cuts off: not what sm_90 gives.
_FP8 = ("float8e4nv", "float8_e4m3fn", "tl.float8")


class TritonLaunch(Protocol):
    """What runs a kernel: PTX text, entry, grid, block, shared bytes, one `bytes` a parameter."""

    def __call__(
        self,
        ptx: str,
        entry: str,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        cluster: tuple[int, int, int],
        arguments: Sequence[bytes],
        tensors: Sequence[Any],
        assumes: str,
    ) -> None:
        """Run the launch to its end; `assumes` is kept with it (RecordedLaunch)."""


def architecture_for(text: str) -> int:
    """Return the compute capability to compile a candidate's Triton kernels for.

    80 unless the sources speak of what only 90 or 100 has or does as the GPU of the facade does;
    CUASSAY_MACHINE_ARCH (sm_80, sm_89, sm_90 or sm_100) decides where it is set.
    """
    wanted = settings.get(settings.MACHINE_ARCH)
    if wanted:
        return int(wanted.removeprefix("sm_").rstrip("a"))
    if any(sign in text for sign in _NEEDS_100):
        return 100
    # Before 90 an atomic sum in bfloat16 is a loop of exchanges, in which no shadow sees a sum.
    needed = any(sign in text for sign in (*_NEEDS_90[:4], *_FP8))
    return 90 if needed or all(sign in text for sign in _BF16_SUM) else 80


def enable(
    launch: TritonLaunch,
    *,
    arch: int,
    multiprocessors: int,
    real: Callable[[], bool] = lambda: False,
) -> None:
    """Make this process's Triton compile for `arch` and launch through `launch`.

    While `real` holds, functions of libdevice are compiled as what they approximate. Must run
    before the candidate is imported. Raises MissingToolError where Triton is absent or its native
    build has no NVIDIA backend.
    """
    os.environ.pop("TRITON_INTERPRET", None)
    try:
        runtime = importlib.import_module("triton.runtime")
        backend = importlib.import_module("triton.backends.nvidia.compiler").CUDABackend
        target = importlib.import_module("triton.backends.compiler").GPUTarget("cuda", arch, 32)
    except ImportError as error:
        if importlib.util.find_spec("triton") is None:
            raise missing_extra("triton", "triton") from None
        raise MissingToolError(
            f"this Triton cannot compile for NVIDIA GPUs ({error}); install triton 3.6 to 3.9"
        ) from error
    runtime.driver.set_active(_driver(target, launch, multiprocessors))
    _stop_at_ptx(backend)
    _replace_functions(backend, real)
    # Let Helion take its default configuration: its search asks for a GPU.
    os.environ.setdefault("HELION_AUTOTUNE_EFFORT", "none")
    # Let triton.autotune take its first configuration that survives pruning.
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner

    def bench(self: Any, *arguments: Any, config: Any, **meta: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    autotuner._bench = bench
    # Turn what Triton's compiler raises into MissingToolError: no verdict follows from it.
    # Another GPU may take what this architecture does not, and on a GPU the autotuner
    # leaves configurations out that do not compile, or take too much shared memory.
    compiler = importlib.import_module("triton.compiler.compiler")
    for owner, name in ((compiler, "compile"), (compiler.CompiledKernel, "_init_handles")):
        original = getattr(owner, name, None)
        if original is None or hasattr(original, _PATCHED):
            continue
        setattr(owner, name, _refusing(original, arch))
    package: Any = importlib.import_module("triton.compiler")
    package.compile = compiler.compile  # where its runtime takes it from


def _driver(target: Any, launch: TritonLaunch, multiprocessors: int) -> Any:
    import torch

    properties = {
        "multiprocessor_count": multiprocessors,
        "max_shared_mem": _SHARED_LIMIT,
        "max_num_regs": 65536,
        "warpSize": 32,
        "sm_clock_rate": 1_000_000,
        "mem_clock_rate": 1_000_000,
        "mem_bus_width": 4096,
    }
    utils = SimpleNamespace(
        get_device_properties=lambda device=None: dict(properties),
        load_binary=lambda name, ptx, shared, device: (ptx, (ptx, name), 32, 0, 1024),
        fill_tma_descriptor=descriptor,
        fill_tma_descriptor_tiled=descriptor,
    )

    def launcher(src: Any, metadata: Any) -> Any:
        return _launcher(src, metadata, launch)

    return SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        set_current_device=lambda device: None,
        get_current_stream=lambda device=None: 0,
        get_active_torch_device=lambda: torch.device("cuda", 0),
        get_device_capability=lambda device=None: (target.arch // 10, target.arch % 10),
        get_device_interface=lambda: torch.cuda,
        get_benchmarker=lambda: lambda call, quantiles=None, **_: [0.0, 0.0, 0.0],
        get_empty_cache_for_benchmark=lambda: torch.empty(1, dtype=torch.int8),
        clear_cache=lambda cache: None,
        map_python_to_cpp_type=str,
        launcher_cls=launcher,
        utils=utils,
    )


def _launcher(src: Any, metadata: Any, launch: TritonLaunch) -> Callable[..., None]:
    """Return what Triton calls to launch one compiled kernel."""
    nvidia = importlib.import_module("triton.backends.nvidia.driver")
    signature: Mapping[Any, Any] = dict(src.signature)

    def plain(*given: Any) -> None:
        ptx, name = given[4]
        if math.prod(int(extent) for extent in given[:3]) <= 0:
            return
        found = packed(metadata, signature, given[:3], given[LEADING:])
        launch(
            ptx.decode() if isinstance(ptx, bytes) else ptx,
            name,
            grid=found.grid,
            block=found.block,
            shared_bytes=found.shared_bytes,
            cluster=found.cluster,
            arguments=found.arguments,
            tensors=[*found.tensors, *found.scratch],
            assumes=str(getattr(metadata, _ASSUMES, "")),
        )

    meta = getattr(metadata, "tensordesc_meta", None)
    wrap = getattr(nvidia, "wrap_handle_tensordesc", None)
    if wrap is None or not any(str(kind).startswith("tensordesc") for kind in signature.values()):
        return plain
    if hasattr(nvidia, "wrap_handle_tensordesc_impl"):  # from Triton 3.8 on

        def expand(value: Any, known: Any) -> Any:
            return nvidia.make_tensordesc_arg(value, known, None)

        return _expanding(plain, signature, meta, expand)
    if int(getattr(nvidia, "_BASE_ARGS_FORMAT_LEN", LEADING)) == LEADING:
        wrapped: Callable[..., None] = wrap(plain, signature, meta)
        return wrapped
    return _expanding(plain, signature, meta, nvidia.make_tensordesc_arg)


def _expanding(
    plain: Callable[..., None], signature: Mapping[Any, Any], meta: Any, expand: Any
) -> Callable[..., None]:
    """Return `plain` for launches whose descriptors are still whole: Triton's own code splits them.

    Triton's wrapper counts what its C launcher gets first, which are more than these.
    """

    def launch(*given: Any) -> None:
        known = iter(meta or ())
        values: list[Any] = []
        for kind, value in zip(signature.values(), given[LEADING:], strict=True):
            whole = str(kind).startswith("tensordesc")
            values += expand(value, next(known, None)) if whole else [value]
        plain(*given[:LEADING], *values)

    return launch


def _stop_at_ptx(backend: Any) -> None:
    """Let the last stage hand the PTX on: no GPU will run what ptxas would make of it.

    The first one also keeps what the kernel assumes, of which the PTX knows nothing.
    """
    if hasattr(backend, _PATCHED):
        return

    def as_it_is(self: Any, src: Any, *_: Any, **__: Any) -> bytes:
        text: str = src if isinstance(src, str) else src.decode()
        return text.encode()

    backend.make_cubin = as_it_is
    original = backend.make_ttir

    @functools.wraps(original)
    def make_ttir(mod: Any, metadata: dict[str, Any], *more: Any, **named: Any) -> Any:
        made = original(mod, metadata, *more, **named)
        metadata[_ASSUMES] = assumed(str(made))  # kept with what was compiled
        return made

    backend.make_ttir = staticmethod(make_ttir)
    setattr(backend, _PATCHED, True)


def _replace_functions(backend: Any, real: Callable[[], bool]) -> None:
    """Link our functions before libdevice, which then gives the others alone."""
    original = getattr(backend.parse_options, _PATCHED, backend.parse_options)

    @functools.wraps(original)
    def parse_options(self: Any, given: Any) -> Any:
        options = original(self, given)
        if real():
            libraries = (("a", str(_REAL_FUNCTIONS)), *options.extern_libs)
            object.__setattr__(options, "extern_libs", libraries)  # a frozen dataclass
        return options

    setattr(parse_options, _PATCHED, original)
    backend.parse_options = parse_options


def _refusing(original: Callable[..., Any], arch: int) -> Callable[..., Any]:
    @functools.wraps(original)
    @untraced()
    def call(*given: Any, **options: Any) -> Any:
        try:
            return original(*given, **options)
        except (MissingToolError, MemoryError):
            raise
        except Exception as error:
            if _is_of_the_call(error):
                raise
            said = str(error).strip().splitlines()
            why = f"{type(error).__name__}: {said[-1] if said else ''}"[:300]
            raise not_covered("", f"Triton does not make it for sm_{arch}: {why}") from error

    setattr(call, _PATCHED, True)
    return call


def _is_of_the_call(error: BaseException | None) -> bool:
    """Whether Python refused an operation of the kernel: of an argument None, say.

    Every architecture refuses that call alike. (Triton shows what was raised by its text alone.)
    """
    while error is not None:
        if isinstance(error, AttributeError | TypeError | NameError):
            return True
        error = error.__context__
    return False
