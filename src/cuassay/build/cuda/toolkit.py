"""Where the CUDA toolkit is, which device is built for, and what names a build's tools."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from cuassay.errors import MissingToolError
from cuassay.model.device import Device

_HOPPER_ONLY = ("wgmma", "cp.async.bulk", "setmaxnreg", "mbarrier.try_wait")
_PIP_TOOLKITS = ("cu13", "cu12", "cuda_nvcc")


@cache
def pip_folders() -> tuple[Path, ...]:
    """Return the folders in which pip's CUDA wheels lie: `nvidia` is a namespace package."""
    spec = importlib.util.find_spec("nvidia")
    found = list(spec.submodule_search_locations or ()) if spec is not None else []
    return tuple(dict.fromkeys(map(Path, found)))


@cache
def cuda_home() -> Path | None:
    """Return the toolkit's folder (the one that holds bin/nvcc), or None.

    Looks at CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda, then pip's wheels, where
    torch itself does not look.
    """
    places = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    on_path = shutil.which("nvcc")
    if on_path is not None:
        places.append(Path(on_path).resolve().parent.parent)
    places.append(Path("/usr/local/cuda"))
    places.extend(folder / name for folder in pip_folders() for name in _PIP_TOOLKITS)
    with_nvcc = [place for place in places if (place / "bin" / "nvcc").is_file()]
    # nvcc on PATH may be a wrapper that stands outside its toolkit
    whole = [place for place in with_nvcc if (place / "include" / "cuda_runtime.h").is_file()]
    return next(iter([*whole, *with_nvcc]), None)


def find_nvcc() -> Path:
    """Return the path of nvcc. Raises MissingToolError that says how to get one."""
    home = cuda_home()
    if home is None:
        raise MissingToolError(
            "this candidate is CUDA C++ and no nvcc was found: set CUDA_HOME to a CUDA toolkit, "
            "put nvcc on PATH, or pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm "
            "nvidia-cuda-runtime nvidia-cuda-cccl"
        )
    return home / "bin" / "nvcc"


def find_host_compiler() -> Path:
    """Return the C++ compiler: $CXX or g++. Raises MissingToolError where there is none."""
    wanted = os.environ.get("CXX") or "g++"
    found = shutil.which(wanted)
    if found is None:
        raise MissingToolError(
            f"this candidate is C++ and the compiler '{wanted}' was not found: install g++ or "
            "set CXX"
        )
    return Path(found)


def include_folders() -> tuple[Path, ...]:
    """Return every folder of CUDA headers that exists: the toolkit's and pip's, CCCL included."""
    places = [cuda_home() or Path("/nonexistent")]
    wheels = ("cu13", "cu12", "cuda_runtime", "cuda_cccl")
    places.extend(folder / name for folder in pip_folders() for name in wheels)
    found = [place / "include" for place in places]
    found.extend(place / "include" / "cccl" for place in places)
    return tuple(place for place in found if place.is_dir())


@cache
def architecture(device: Device) -> str:
    """Return the architecture of the CUDA device, such as sm_90; empty on the cpu.

    Raises MissingToolError where torch sees no such device.
    """
    if not device.on_gpu:
        return ""
    import torch

    if not torch.cuda.is_available():
        raise MissingToolError(
            f"device '{device}' was asked for and torch sees no NVIDIA GPU; check nvidia-smi and "
            "that this torch is a CUDA build, or use --device cpu"
        )
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def hopper_arch(arch: str, source: str) -> str:
    """Return sm_90a instead of sm_90 where the source uses instructions that only it has."""
    return f"{arch}a" if arch == "sm_90" and any(sign in source for sign in _HOPPER_ONLY) else arch


def toolchain(device: Device) -> dict[str, str]:
    """Return the names and versions that decide what a build gives, for digests and reports.

    Raises MissingToolError where `device` is a CUDA device that is not there.
    """
    import torch

    names = {"python": platform.python_version(), "torch": torch.__version__, **versions()}
    arch = architecture(device)
    if arch:
        names["arch"] = arch
        names["cuda"] = str(torch.version.cuda)
        names["device"] = torch.cuda.get_device_name(device)
        names["nvcc"] = _nvcc_version()
    return names


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of the installed packages among those that decide on a build."""
    found = {}
    for name in ("triton", "ml_dtypes"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@cache
def _nvcc_version() -> str:
    """Read the toolkit's version from its version.json: starting nvcc costs 50 ms and more."""
    home = cuda_home()
    if home is None:
        return "none"
    try:
        document = json.loads((home / "version.json").read_text(encoding="utf-8"))
        return str(document["cuda_nvcc"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return str((home / "bin" / "nvcc").stat().st_mtime_ns)  # changes when nvcc does
