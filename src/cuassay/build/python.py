"""Python candidates: PyTorch callables, with or without Triton kernels."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from cuassay.build import tuned
from cuassay.build.cuda.toolkit import architecture, cuda_home, hopper_arch
from cuassay.build.gpu_questions import asked_in_vain, watch_questions
from cuassay.build.sources import (
    absent_library_of_ranks,
    build_lock,
    candidate_traceback,
    write_sources,
)
from cuassay.build.unavailable import went_without
from cuassay.errors import BuildError, CuassayError, MissingToolError, suggestion
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.ranks import other_way

# They reach the memory of other ranks from a kernel.
_PACKAGES_OF_RANKS = ("nvshmem", "nccl", "triton_dist", "mscclpp", "deep_ep", "pplx_kernels")
_NVSHMEM_IS_ABSENT = "NVSHMEM device library not found"  # says torch, of its Triton functions
_NEEDS_GPU = (
    "Found no NVIDIA driver",
    "not compiled with CUDA enabled",
    "compiled without CUDA support",
    "compiled without support for the specified device",
    "cannot import name '_cuda",  # from torch._C
    "has no attribute '_cuda",
    "No CUDA GPUs are available",
    "no CUDA-capable device is detected",  # from the runtime, where torch was built for CUDA
    "CUDA driver version is insufficient",
    "0 active drivers",
    "Tried to instantiate dummy base class",
    "not supported in interpreter mode",
    "Could not load symbol cuda",
    "libcuda.so",
    "libcudart.so",
)
_LINKS = 100  # of a chain of exceptions, looked at
_NEEDS_TOOL = ("CUDA_HOME environment variable is not set", "Ninja is required", "nvcc: not found")


def load_python(
    candidate: Candidate, *, device: Device, folder: Path, interpret: bool = True
) -> Callable[..., object]:
    """Import the candidate's entry function from its files below `folder/src`.

    On the cpu a candidate that mentions CUDA or Triton gets the facade of `cuda_facade`, and with
    `interpret` Triton its repaired interpreter. Raises BuildError with the candidate's own frames
    of the traceback where the import or the entry function fails, and MissingToolError where a
    package, a compiler or a GPU is what is missing.
    """
    text = "\n".join(source.text for source in candidate.sources)
    on_cpu = not device.on_gpu
    if on_cpu and interpret and candidate.names_triton:
        from cuassay.build.interpreter.install import enable

        enable()
    if not on_cpu:
        os.environ.pop("TRITON_INTERPRET", None)  # a GPU is judged by its own arithmetic
    root = write_sources(candidate, folder)
    if "triton" in text:
        from cuassay.build.recording.ledger import count_triton

        count_triton(root, text)
    if not on_cpu:  # also where only a library that the candidate imports speaks of Triton
        tuned.tune_once(folder)
    # Keep every cache that torch and Triton write inside the candidate's folder
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder / "torch_extensions")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    if on_cpu:
        watch_questions()
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    if on_cpu and speaks_of_a_gpu(candidate):
        from cuassay.build.cuda_facade import cuda_facade

        around = cuda_facade
    with contextlib.ExitStack() as stack:
        stack.enter_context(_translated(root, on_cpu=on_cpu))
        stack.enter_context(around())
        if "cpp_extension" in text:
            # Make torch's extension builder find the toolkit, build for one device, and build fast
            if device.on_gpu:
                home = cuda_home()
                if home is not None:
                    os.environ.setdefault("CUDA_HOME", str(home))
                arch = hopper_arch(architecture(device), text)
                version = arch.removeprefix("sm_").rstrip("a")
                suffix = "a" if arch.endswith("a") else ""
                # PTX too: launches of the library can then be executed by the PTX machine.
                listed = f"{version[:-1]}.{version[-1]}{suffix}+PTX"
                os.environ.setdefault("TORCH_CUDA_ARCH_LIST", listed)
            from cuassay.build.cuda.inline_extension import install

            install(folder, device=device)
            stack.enter_context(_owned_extensions(folder))
        module = _import(root, candidate)
    function = _entry(module, candidate)
    return _guarded(function, root, around, on_cpu=on_cpu)


@contextlib.contextmanager
def _owned_extensions(folder: Path) -> Iterator[None]:
    """Hold the build lock and clear lock files that a killed builder left behind.

    torch before mid-2026 waits forever for such a file (pytorch issue 189245).
    """
    with build_lock(folder):
        for stale in (folder / "torch_extensions").glob("*/lock"):
            stale.unlink(missing_ok=True)
        yield


# Types of what Triton, and Gluon within it, make of a decorated function.
_KERNELS = ("JITFunction", "GluonJITFunction", "InterpretedFunction", "Autotuner")


def speaks_of_a_gpu(candidate: Candidate) -> bool:
    """Return whether the facade is wanted; torch.compile does not trace through it."""
    if candidate.launches_ptx:
        return True
    text = "\n".join(source.text for source in candidate.sources)
    names_one = "cuda" in text or "_scaled_mm" in text  # products that torch has on GPUs alone
    return names_one and "torch.compile" not in text


def _import(root: Path, candidate: Candidate) -> types.ModuleType:
    entry = PurePosixPath(candidate.entry_file)
    file = root / entry
    if not file.is_file():
        raise BuildError(f"the entry file '{candidate.entry_file}' is not among the sources")
    for place in dict.fromkeys((str(root), str(file.parent))):  # the file's folder comes first
        if place in sys.path:
            sys.path.remove(place)
        sys.path.insert(0, place)
    importlib.invalidate_caches()
    if (file.parent / "__init__.py").is_file() and len(entry.parts) > 1:
        return importlib.import_module(".".join(entry.with_suffix("").parts))
    name = f"_cuassay_candidate_{entry.stem}_{abs(hash(str(file))):x}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BuildError(f"the entry file '{candidate.entry_file}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses, pickle and Triton look their module up
    spec.loader.exec_module(module)
    return module


def _entry(module: types.ModuleType, candidate: Candidate) -> Callable[..., object]:
    wanted = candidate.entry_function
    function = getattr(module, wanted, None)
    if function is None:
        defined = [name for name, value in vars(module).items() if callable(value)]
        hint = suggestion(wanted, defined)
        raise BuildError(
            f"{candidate.entry_file} has no entry function '{wanted}'"
            + (f"; {hint}" if hint else "")
        )
    if type(function).__name__ in _KERNELS:
        raise BuildError(
            f"'{wanted}' in {candidate.entry_file} is a Triton kernel; the entry must be a "
            "Python function that launches it"
        )
    if not callable(function):
        raise BuildError(
            f"'{wanted}' in {candidate.entry_file} is a {type(function).__name__}, "
            "expected a function"
        )
    checked: Callable[..., object] = function
    return checked


@contextlib.contextmanager
def _translated(root: Path, *, on_cpu: bool) -> Iterator[None]:
    """Turn whatever the candidate raises into BuildError, or MissingToolError with cause."""
    try:
        yield
    except (CuassayError, KeyboardInterrupt):
        raise
    except BaseException as error:
        missing = _missing(error, root, on_cpu=on_cpu) or went_without()
        if missing:
            raise MissingToolError(missing) from error
        log = candidate_traceback(error, root)
        last = f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]
        raise BuildError(f"importing the candidate failed: {last}", log) from error


def _missing(error: BaseException, root: Path, *, on_cpu: bool) -> str:
    """Return what the machine lacks if that is why `error` was raised, else nothing."""
    link: BaseException | None = error
    for _ in range(_LINKS):  # a candidate can close the chain to a ring
        if link is None:
            break
        if isinstance(link, MissingToolError):
            return str(link)
        text = str(link)
        if isinstance(link, ModuleNotFoundError):
            package = (link.name or "").split(".")[0]
            own = (root / package).exists() or (root / f"{package}.py").exists()
            if package in _PACKAGES_OF_RANKS and not own:
                return other_way(f"the package '{link.name}'")
            if package and not own:
                return (
                    f"the candidate imports '{link.name}', which is neither among its files nor "
                    "installed here: install it, or correct the name"
                )
        unjudged = absent_library_of_ranks(text)
        if unjudged or _NVSHMEM_IS_ABSENT in text:
            return unjudged or other_way("NVSHMEM's device library")
        if any(sign in text for sign in _NEEDS_TOOL):
            return (
                f"the candidate builds CUDA code, and a compiler is missing: {text[:300]}; set "
                "CUDA_HOME, put nvcc and ninja on PATH, or pip install nvidia-cuda-nvcc ninja"
            )
        if on_cpu and any(sign in text for sign in _NEEDS_GPU):
            return (
                f"the candidate needs an NVIDIA GPU, and this trial runs on the cpu: {text[:300]}"
            )
        package = asked_in_vain(link, root) if on_cpu else ""
        if package:
            return (
                f"the candidate's package '{package}' needs an NVIDIA GPU, and this trial runs on "
                f"the cpu ({' '.join(text.split())[:300]}); judge it with --device cuda"
            )
        link = link.__cause__ or link.__context__
    return ""


def _guarded(
    function: Callable[..., object],
    root: Path,
    around: Callable[[], contextlib.AbstractContextManager[None]],
    *,
    on_cpu: bool,
) -> Callable[..., object]:
    """Wrap the entry function for the cpu; on a GPU it is returned as it is.

    The candidate's own exceptions pass unchanged. One that says that only a GPU is missing
    becomes MissingToolError, and so does an answer without kernels that could not be built or run
    here: no verdict follows from it.
    """
    if not on_cpu:
        return function

    @functools.wraps(function)  # its parameters can be asked for
    def call(*arguments: object, **options: object) -> object:
        try:
            with around():
                answer = function(*arguments, **options)
        except Exception as error:
            missing = _missing(error, root, on_cpu=True) or went_without()
            if missing and not isinstance(error, MissingToolError):
                raise MissingToolError(missing) from error
            raise
        if went_without():
            raise MissingToolError(went_without())
        return answer

    return call
